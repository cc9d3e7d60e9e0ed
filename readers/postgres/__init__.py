"""Parsers of pg_test_fsync, pg_test_timing and PostgreSQL's log."""
