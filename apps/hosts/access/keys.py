"""SSH key pairs, generated or uploaded. Private keys are encrypted by the vault and never logged."""

from __future__ import annotations

import asyncssh

from common.errors import PlanError


def generate(comment: str) -> tuple[str, str]:
    """Generate an ed25519 pair. Returns (public line, private key in OpenSSH format)."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    return key.export_public_key().decode().strip(), key.export_private_key().decode()


def read_private(text: str) -> tuple[str, str]:
    """Return the public line of an uploaded private key, and the key. PlanError if it is not a private key or has a
    passphrase."""
    try:
        key = asyncssh.import_private_key(text)
    except asyncssh.KeyImportError as error:
        hint = "paste an unencrypted OpenSSH or PEM private key, as ssh-keygen writes it"
        raise PlanError("private_key", str(error), hint=hint) from error
    return key.export_public_key().decode().strip(), text


def fingerprint(public_line: str) -> str:
    """Return the SHA256:... fingerprint of a public key line, as ssh-keygen -l prints it."""
    return str(asyncssh.import_public_key(public_line).get_fingerprint())
