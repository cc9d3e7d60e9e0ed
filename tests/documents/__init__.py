"""Checks of documents against the code, and the tables that are generated from it."""
