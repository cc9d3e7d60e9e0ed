"""What is kept encrypted at rest: SSH private keys, and the secrets that webhooks are signed with."""

from __future__ import annotations

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from common.errors import HostError


def _box() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.SSH_KEYS])


def encrypt(secret: str) -> str:
    return _box().encrypt(secret.encode()).decode()


def decrypt(token: str, *, what: str = "this SSH private key") -> str:
    """The secret. HostError when none of PROVING_SSH_KEYS opens it."""
    try:
        return _box().decrypt(token.encode()).decode()
    except InvalidToken as error:
        hint = "add the key that encrypted it to PROVING_SSH_KEYS"
        raise HostError("identity", f"no key of PROVING_SSH_KEYS decrypts {what}", hint=hint) from error
