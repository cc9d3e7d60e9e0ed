"""Reads the file that `proving twin capture` writes."""
