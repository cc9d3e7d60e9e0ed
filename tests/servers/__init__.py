"""Hosts, servers and the whole stack, run for real by tests, and what a run could leave changed there."""
