"""Decisions, timeline, search and feed as JSON."""
