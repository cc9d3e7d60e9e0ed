"""EXPLAIN in text, JSON, YAML and XML."""
