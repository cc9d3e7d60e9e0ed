"""Each kind of PostgreSQL that a run works with: a cluster of its own, an existing one, a standby, a remote one."""
