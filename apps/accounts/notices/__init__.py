"""Events, the channels that carry them, and their deliveries."""
