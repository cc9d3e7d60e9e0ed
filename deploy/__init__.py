"""The release process, and what an installation needs."""
