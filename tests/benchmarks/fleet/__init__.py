"""The cost of following many hosts, real and simulated ones."""
