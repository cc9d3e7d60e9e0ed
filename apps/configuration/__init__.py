"""The environment, the addresses of PostgreSQL and Redis, and the version."""
