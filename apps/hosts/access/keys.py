"""SSH key pairs: made here or uploaded, kept by the vault, never logged."""

from __future__ import annotations

import asyncssh

from common.errors import PlanError


def generate(comment: str) -> tuple[str, str]:
    """A new ed25519 pair: (public line, private key in OpenSSH format)."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    return key.export_public_key().decode().strip(), key.export_private_key().decode()


def read_private(text: str) -> tuple[str, str]:
    """Check an uploaded private key and derive its public line. PlanError when it is none, or has a passphrase."""
    try:
        key = asyncssh.import_private_key(text)
    except asyncssh.KeyImportError as error:
        hint = "paste an unencrypted OpenSSH or PEM private key, as ssh-keygen writes it"
        raise PlanError("private_key", str(error), hint=hint) from error
    return key.export_public_key().decode().strip(), text


def fingerprint(public_line: str) -> str:
    """SHA256:... of a public key line, as ssh-keygen -l prints it."""
    return str(asyncssh.import_public_key(public_line).get_fingerprint())
