"""Repeated measurements over time: baselines of a host, trends of a schedule."""
