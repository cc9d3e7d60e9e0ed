"""Full-text search, the command palette, and the decisions behind a setting."""
