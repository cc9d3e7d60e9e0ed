"""Durations of pages and lists with a long history. `python -m tests.benchmarks.pages`."""
