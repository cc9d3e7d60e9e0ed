"""Pages and forms of hosts."""
