"""Captured statements as statements of pgbench, with their parameters drawn like those of production. Pure."""
