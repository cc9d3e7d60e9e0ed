"""Searches for values of settings: the optimiser proposes candidates, campaigns measure and confirm them."""
