"""Collectors that query PostgreSQL, each over one psql that stays connected."""
