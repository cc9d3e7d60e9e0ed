"""What one run shows: its events, proof, steps and latencies."""
