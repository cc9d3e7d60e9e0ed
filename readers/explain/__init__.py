"""Parsers of EXPLAIN output: text, JSON, YAML and XML."""
