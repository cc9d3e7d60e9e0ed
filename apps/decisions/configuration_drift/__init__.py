"""Drift: hosts that no longer have the decided values."""
