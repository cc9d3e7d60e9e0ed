"""Whether a decision still holds: stale conditions, newer results, confirming campaigns."""
