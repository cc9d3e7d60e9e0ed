"""How the server reaches an agent: SSH, keys and signatures, and the check of every reply."""
