"""Measurements and series in the database, and answers that are computed once."""
