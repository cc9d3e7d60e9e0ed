"""Parser of the file that `proving twin capture` writes."""
