"""The content of a run's page: events, proof, steps, samples and latencies."""
