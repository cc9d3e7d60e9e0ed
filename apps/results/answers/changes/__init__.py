"""What changed with a level: every figure against the baseline, told as an association and never as a cause."""
