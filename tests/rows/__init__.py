"""Rows for tests: single ones, a full site, years of history."""
