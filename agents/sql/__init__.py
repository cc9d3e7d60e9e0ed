"""SQL and psql scripts as text: statements, what may write, what reaches out of the database. Pure."""
