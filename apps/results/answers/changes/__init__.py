"""What changed with a level: every figure against the baseline, reported as an association, never as a cause."""
