"""The demo: a real campaign on this machine, through the REST API."""
