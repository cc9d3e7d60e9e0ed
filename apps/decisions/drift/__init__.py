"""Which hosts no longer have the decided values."""
