"""Simulated searches on surrogates with known best values: which sampler is best, and how often a search is wrong."""
