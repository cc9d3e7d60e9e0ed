"""What one run shows: its story, proof, steps and latencies."""
