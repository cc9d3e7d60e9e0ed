"""The kinds of PostgreSQL that a run can use: a private cluster, an existing one, a standby, a remote server."""
