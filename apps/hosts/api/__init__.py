"""Hosts, identities, keys, facts and problems as JSON."""
