"""Rules for what may run on a host and when: leases, reservations, windows, allowed paths and clusters."""
