"""The facts of a machine: its identity, topology, health, and changes."""
