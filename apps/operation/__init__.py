"""What an operator does with an instance: backup and restore, a new key for its secrets, the runtime role."""
