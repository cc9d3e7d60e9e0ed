"""Home, pages and forms of decisions."""
