"""SSH key pairs: generated, uploaded, or read from a reference at each use; and the certificates of their public keys.

Private keys of the database are encrypted by the vault. None is logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncssh
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, ssh

from apps.hosts.models import Identity
from apps.infrastructure import references, vault
from common.errors import HostError, PlanError

HINT = "an unencrypted OpenSSH or PEM private key, as ssh-keygen writes it"
# A certificate is about to expire in the last quarter of its validity, but at most a week before its end.
SOON, LAST_PART = timedelta(days=7), 4
NO_END = 2**64 - 1
OPENSSH = (Encoding.OpenSSH, PublicFormat.OpenSSH)


@dataclass(frozen=True)
class Certificate:
    """What a user certificate permits, as ssh-keygen -L prints it: `key` is algorithm and base64 of the public key that
    was signed, `ca` the fingerprint of the key that signed it. `ends` is None if it is valid for ever."""

    key_id: str
    principals: tuple[str, ...]
    starts: datetime
    ends: datetime | None
    ca: str
    key: list[str]
    text: str

    def is_expired(self, now: datetime) -> bool:
        return self.ends is not None and self.ends <= now

    def is_expiring(self, now: datetime) -> bool:
        """Whether it is time to renew it: its CA should have done so already."""
        return self.ends is not None and self.ends - now < min(SOON, (self.ends - self.starts) / LAST_PART)


@dataclass(frozen=True)
class Login:
    """What the server logs in with now: the private key, its public line, and the certificate, if there is one."""

    private_key: str
    public_key: str
    certificate: Certificate | None


def generate(comment: str) -> tuple[str, str]:
    """Generate an ed25519 pair. Returns (public line, private key in OpenSSH format)."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    return key.export_public_key().decode().strip(), key.export_private_key().decode()


def read_private(text: str) -> tuple[str, str]:
    """Return the public line of an uploaded private key, and the key. PlanError if it is not a private key or has a
    passphrase."""
    try:
        return _public_line(text), text
    except asyncssh.KeyImportError as error:
        raise PlanError("private_key", str(error), hint=f"paste {HINT}") from error


def fingerprint(public_line: str) -> str:
    """Return the SHA256:... fingerprint of a public key line, as ssh-keygen -l prints it."""
    return str(asyncssh.import_public_key(public_line).get_fingerprint())


def login(identity: Identity, now: datetime | None = None) -> Login:
    """What logs in to hosts with this SSH key at this moment. HostError names the reference that cannot be used."""
    now = now or datetime.now(UTC)
    private, public = _private_key(identity)
    if not identity.certificate_from:
        return Login(private, public, None)
    certificate = read_certificate(identity.certificate_from)
    if certificate.key != public.split()[:2]:
        message = f"is not a certificate for the public key of {identity}"
        raise HostError(identity.certificate_from, message, hint="sign the public key on the page SSH keys")
    if certificate.is_expired(now):
        message = f"the certificate expired at {certificate.ends:%Y-%m-%d %H:%M} UTC"
        raise HostError(identity.certificate_from, message, hint="let the CA sign the public key again")
    if certificate.starts > now:
        message = f"the certificate is valid from {certificate.starts:%Y-%m-%d %H:%M} UTC"
        raise HostError(identity.certificate_from, message, hint="check the clocks of this server and of the CA")
    return Login(private, public, certificate)


@dataclass(frozen=True)
class State:
    """A key as its page shows it: what it logs in with now, or why it cannot."""

    public_key: str
    certificate: Certificate | None = None
    problem: str = ""


def state(identity: Identity) -> State:
    """Read the references of a key as a connection would. A key of the database has none."""
    if not identity.private_key_from and not identity.certificate_from:
        return State(identity.public_key)
    try:
        known = login(identity)
    except HostError as error:
        return State(identity.public_key, problem=error.reason)
    return State(known.public_key, known.certificate)


def warnings(identities: Iterable[Identity]) -> list[str]:
    """A sentence for each key whose references cannot be used, or whose certificate is about to expire."""
    sentences, now = [], datetime.now(UTC)
    for identity in identities:
        known = state(identity)
        if known.problem:
            sentences.append(f"SSH key {identity} cannot be used: {known.problem}.")
        elif known.certificate and known.certificate.is_expiring(now):
            ends = f"{known.certificate.ends:%Y-%m-%d %H:%M} UTC"
            sentences.append(f"The certificate of SSH key {identity} expires at {ends}. Renew it.")
    return sentences


def read_certificate(reference: str) -> Certificate:
    """The user certificate that a reference names. HostError if it is none."""
    text = references.read(reference)
    try:
        known = ssh.load_ssh_public_identity(text.encode())
        if not isinstance(known, ssh.SSHCertificate) or known.type is not ssh.SSHCertificateType.USER:
            raise ValueError("not a user certificate")
        known.verify_cert_signature()
    except Exception as error:  # cryptography raises its own errors, ValueError and InvalidSignature
        hint = "a file as ssh-keygen -s writes it, such as KEY-cert.pub"
        raise HostError(reference, "is not an OpenSSH user certificate", hint=hint) from error
    ends = None if known.valid_before == NO_END else _time(known.valid_before)
    key, ca = (each.public_bytes(*OPENSSH).decode() for each in (known.public_key(), known.signature_key()))
    principals = tuple(each.decode(errors="replace") for each in known.valid_principals)
    key_id = known.key_id.decode(errors="replace")
    return Certificate(key_id, principals, _time(known.valid_after), ends, fingerprint(ca), key.split()[:2], text)


def _time(seconds: int) -> datetime:
    """A time of a certificate; those after the year 9999 become its end."""
    return datetime.fromtimestamp(min(seconds, 253_402_300_799), UTC)


def _private_key(identity: Identity) -> tuple[str, str]:
    """Private key and public line; both are read anew if they are a reference."""
    if not identity.private_key_from:
        return vault.decrypt(identity.private_key_encrypted), identity.public_key
    text = references.read(identity.private_key_from)
    try:
        return text, _public_line(text)
    except asyncssh.KeyImportError as error:
        raise HostError(identity.private_key_from, "is not a private key", hint=f"accepted: {HINT}") from error


def _public_line(private_key: str) -> str:
    return str(asyncssh.import_private_key(private_key).export_public_key().decode().strip())
