"""Variation between campaigns, and a new campaign against earlier ones."""
