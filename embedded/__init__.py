"""The whole stack on one machine without Docker: PostgreSQL and Valkey from their wheels, with a supervisor.

Does not import Django: it starts the server, it is not part of it."""
