"""Groups of scenarios, one per file."""
