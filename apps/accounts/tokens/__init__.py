"""API tokens: which are admitted, what they permit, and how they are issued, rotated and revoked."""
