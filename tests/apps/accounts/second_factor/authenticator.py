"""An authenticator in memory: it creates passkeys and signs challenges as WebAuthn Level 3 defines it."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import AttestedCredentialData

PRESENT, VERIFIED, SYNCED, ATTESTED = 0x01, 0x04, 0x08, 0x40
AAGUID = bytes(16)


@dataclass
class Authenticator:
    """One passkey, and what its owner, or an attacker who controls the browser, can change of a response."""

    origin: str = "https://proving.example.org"
    counts: bool = True
    flags: int = PRESENT | VERIFIED
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    user_handle: bytes | None = None
    counter: int = 0

    def create(self, options: dict[str, Any], **client: Any) -> str:
        """The response to the options of `navigator.credentials.create`, as JSON."""
        asked = options["publicKey"]
        self.user_handle = websafe_decode(asked["user"]["id"])
        credential = AttestedCredentialData.create(
            AAGUID, self.credential_id, ES256.from_cryptography_key(self.key.public_key())
        )
        data = self._authenticator_data(asked["rp"]["id"], ATTESTED) + credential
        response = {
            "clientDataJSON": websafe_encode(self._client_data("webauthn.create", asked, client)),
            "attestationObject": websafe_encode(cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})),
            "transports": ["internal"],
        }
        return self._json(response)

    def get(self, options: dict[str, Any], **client: Any) -> str:
        """The response to the options of `navigator.credentials.get`, as JSON."""
        asked = options["publicKey"]
        data = self._authenticator_data(asked["rpId"], 0)
        sent = self._client_data("webauthn.get", asked, client)
        signature = self.key.sign(data + hashlib.sha256(sent).digest(), ec.ECDSA(hashes.SHA256()))
        response = {
            "clientDataJSON": websafe_encode(sent),
            "authenticatorData": websafe_encode(data),
            "signature": websafe_encode(signature),
        }
        if self.user_handle is not None:
            response["userHandle"] = websafe_encode(self.user_handle)
        return self._json(response)

    def copy(self) -> Authenticator:
        """A clone, as an attacker would make it from the memory of the authenticator."""
        return Authenticator(**self.__dict__)

    def _authenticator_data(self, party: str, flags: int) -> bytes:
        self.counter += self.counts
        head = hashlib.sha256(party.encode()).digest()
        return head + bytes([self.flags | flags]) + struct.pack(">I", self.counter)

    def _client_data(self, kind: str, asked: dict[str, Any], changes: dict[str, Any]) -> bytes:
        client = {"type": kind, "challenge": asked["challenge"], "origin": self.origin, "crossOrigin": False}
        return json.dumps(client | changes).encode()

    def _json(self, response: dict[str, Any]) -> str:
        key = websafe_encode(self.credential_id)
        about = {"type": "public-key", "authenticatorAttachment": "platform", "clientExtensionResults": {}}
        return json.dumps({"id": key, "rawId": key, "response": response, **about})
