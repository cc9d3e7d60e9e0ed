"""The audit log as a page, as JSON and as CSV."""
