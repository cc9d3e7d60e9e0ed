"""People and teams."""
