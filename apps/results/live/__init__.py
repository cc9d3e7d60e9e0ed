"""Live updates while runs are active."""
