"""Environment variables, connections to PostgreSQL and Redis, and the version."""
