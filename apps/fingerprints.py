"""Public fingerprints of keys."""

from __future__ import annotations

import hashlib


def fingerprint(key: str) -> str:
    """Return 16 hexadecimal digits of a hash. A key has 256 random bits, so its hash does not reveal it."""
    return hashlib.sha256(b"proving-ground key " + key.encode()).hexdigest()[:16]
