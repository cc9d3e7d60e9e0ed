"""Levels against a baseline or each other: intervals, verdicts, several factors at once."""
