"""SCRAM verifiers of passwords: statements with these show no password, and neither does PostgreSQL's log."""

from __future__ import annotations

import base64
import hashlib
import hmac

ITERATIONS = 4096  # PostgreSQL's own


def verifier(password: str, salt: bytes) -> str:
    """Pure. The verifier of a password as PostgreSQL stores it (RFC 5803)."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    stored = hashlib.sha256(hmac.new(salted, b"Client Key", "sha256").digest()).digest()
    server = hmac.new(salted, b"Server Key", "sha256").digest()
    spelled = [base64.b64encode(part).decode() for part in (salt, stored, server)]
    return f"SCRAM-SHA-256${ITERATIONS}:{spelled[0]}${spelled[1]}:{spelled[2]}"
