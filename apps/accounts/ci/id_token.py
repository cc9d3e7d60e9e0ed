"""ID tokens that a CI platform gives to its jobs, such as GitHub Actions and GitLab: JSON Web Tokens (RFC 7519)."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from typing import Any

import requests
from django.conf import settings
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from apps.accounts.identity.provider import ALGORITHMS, CLOCK_SKEW_S, TIMEOUT_S, WELL_KNOWN
from common.errors import RoleError, UnreachableError

LONGEST = 16 << 10
KEYS_S = 3600  # a key that the platform withdrew is not trusted for longer
RELOAD_S = 60  # least time between two requests for keys
AGAIN_S = 10  # after a failed one: requests without a valid token must not keep threads waiting
log = logging.getLogger(__name__)


class _Keys:
    """The public keys of an issuer, as last fetched."""

    def __init__(self, issuer: str) -> None:
        self.read_at = time.monotonic()
        self.keys = KeySet.import_key_set(_json(_metadata(issuer)["jwks_uri"]))

    def knows(self, key_id: object) -> bool:
        return any(key.kid == key_id for key in self.keys.keys)


_lock = threading.Lock()
_known: dict[str, _Keys] = {}
_failed_at: dict[str, float] = {}


def verify(text: str, issuer: str) -> dict[str, Any]:
    """The claims of an ID token. Its audience must be the address of this server.

    RoleError if the token is not valid: signature, issuer, audience, expiry. UnreachableError if the keys of the issuer
    cannot be read.
    """
    if len(text) > LONGEST or not text.isascii():
        raise _invalid(f"it is not a JSON Web Token of at most {LONGEST} characters")
    try:
        token = jwt.decode(text, _keys_for(issuer, _key_id(text)), algorithms=sorted(ALGORITHMS))
        _rules(issuer).validate(token.claims)
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise _invalid(str(error)[:200]) from error
    return token.claims


def _rules(issuer: str) -> jwt.JWTClaimsRegistry:
    return jwt.JWTClaimsRegistry(
        leeway=CLOCK_SKEW_S,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": settings.BASE_URL},
        sub={"essential": True},
        iat={"essential": True},
        exp={"essential": True},
    )


def _key_id(text: str) -> object:
    """The id of the key, from the header. It only decides whether the keys are read again."""
    encoded, _, _ = text.partition(".")
    header = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    return header.get("kid")


def _keys_for(issuer: str, key_id: object) -> KeySet:
    """The keys of the issuer; read again after KEYS_S, and for an unknown key at most every RELOAD_S."""
    with _lock:
        known, now = _known.get(issuer), time.monotonic()
        age = now - known.read_at if known else 0.0
        if known is None or age > KEYS_S or (age > RELOAD_S and not known.knows(key_id)):
            known = _known[issuer] = _read(issuer)
        return known.keys


def _read(issuer: str) -> _Keys:
    if time.monotonic() - _failed_at.get(issuer, -AGAIN_S) < AGAIN_S:
        raise _unreachable(issuer)
    try:
        return _Keys(issuer)
    except (UnreachableError, JoseError, KeyError, ValueError, TypeError) as error:
        _failed_at[issuer] = time.monotonic()
        log.warning("the keys of %s cannot be read: %s", issuer, error)
        raise _unreachable(issuer) from error


def _metadata(issuer: str) -> dict[str, Any]:
    metadata: dict[str, Any] = _json(issuer + WELL_KNOWN)
    if metadata.get("issuer") != issuer:
        raise UnreachableError(issuer, f"its metadata name another issuer: {str(metadata.get('issuer'))[:200]!r}")
    return metadata


def _json(address: str) -> Any:
    try:
        response = requests.get(
            address, timeout=TIMEOUT_S, allow_redirects=False, verify=settings.OIDC_CA_BUNDLE or True
        )
        response.raise_for_status()
        return response.json()
    except requests.RequestException as error:
        raise UnreachableError(address, str(error)) from error


def _unreachable(issuer: str) -> UnreachableError:
    return UnreachableError(issuer, "the CI platform does not answer as expected", hint="try again later")


def _invalid(reason: str) -> RoleError:
    hint = f"request an ID token with the audience {settings.BASE_URL}"
    return RoleError("CI sign-in", f"the ID token is not valid: {reason}", hint=hint)
