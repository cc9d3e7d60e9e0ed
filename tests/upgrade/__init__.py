"""The upgrade from the version before, on this machine: see `python -m tests.upgrade --help`."""
