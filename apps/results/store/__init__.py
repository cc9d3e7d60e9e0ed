"""Measurements and series in the database, and cached answers."""
