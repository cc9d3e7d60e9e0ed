"""Proofs of settings that need more than a value read back."""
