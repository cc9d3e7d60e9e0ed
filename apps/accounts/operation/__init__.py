"""Backup, secrets and the accounts of the database."""
