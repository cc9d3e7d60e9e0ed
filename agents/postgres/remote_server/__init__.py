"""A PostgreSQL server that only SQL reaches: where it is, what can be set there, a run on it, a check of it."""
