"""What the server knows of a machine: its identity, topology, health, and what changed."""
