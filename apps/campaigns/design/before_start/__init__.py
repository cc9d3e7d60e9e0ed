"""Checks of a planned campaign against its hosts, before it starts. Nothing is written."""
