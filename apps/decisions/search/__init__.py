"""Search over everything, the command palette, and the decisions behind a setting."""
