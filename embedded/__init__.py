"""The whole stack on one machine from packages alone: PostgreSQL and Valkey out of their wheels, our own supervisor.

Imports no Django: it starts the server, it is not the server.
"""
