"""Which server built this agent. build.py writes both into the zipapp; a checkout has neither."""

VERSION = ""
COMMIT = ""
