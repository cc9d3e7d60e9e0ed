"""Certificates of servers that tests run."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate for `name` with its key, in one file: CA and server at once."""
    key, pem = ec.generate_private_key(ec.SECP256R1()), serialization.Encoding.PEM
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    signed = builder.add_extension(x509.BasicConstraints(True, None), critical=True).sign(key, hashes.SHA256())
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / name).write_bytes(secret + signed.public_bytes(pem))
    return folder / name


def server_context(certificate: Path) -> ssl.SSLContext:
    """For a server that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def key_hash(certificate: Path) -> str:
    """The hash of the public key, by which Chromium can be started to trust a certificate."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    public = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(public).digest()).decode()
