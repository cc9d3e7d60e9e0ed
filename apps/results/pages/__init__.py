"""Pages that show results."""
