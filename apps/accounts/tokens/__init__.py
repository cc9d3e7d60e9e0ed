"""API tokens: admission, limits, and their lifecycle from issue to revocation."""
