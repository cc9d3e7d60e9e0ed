"""Hosts, identities, keys, facts and troubles as JSON."""
