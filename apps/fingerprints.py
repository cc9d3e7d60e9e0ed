"""What a key may be called in public."""

from __future__ import annotations

import hashlib


def fingerprint(key: str) -> str:
    """16 hexadecimal digits of a hash: a key has 256 random bits, so its hash reveals nothing of it."""
    return hashlib.sha256(b"proving-ground key " + key.encode()).hexdigest()[:16]
