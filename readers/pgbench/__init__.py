"""Parsers of pgbench's summary, logs and standard error."""
