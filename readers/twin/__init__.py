"""The file of `proving twin capture`."""
