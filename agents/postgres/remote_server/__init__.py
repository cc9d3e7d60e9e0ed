"""A remote server: PostgreSQL that only SQL reaches. Its connection, its parameters, a run on it, a check of it."""
