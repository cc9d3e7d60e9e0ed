"""The servers of the stack: PostgreSQL and Valkey from wheels, and SSH on 127.0.0.1."""
