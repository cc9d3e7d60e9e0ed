"""Contact with agents: SSH, keys, signatures, and the validation of every reply."""
