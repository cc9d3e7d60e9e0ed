"""WebAuthn with one browser: options for its authenticator, and the verification of the response.

A challenge belongs to one session and one purpose. It works once, within 5 minutes.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import secrets
import time
from collections.abc import Iterable
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from fido2.server import Fido2Server
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestationConveyancePreference,
    AttestedCredentialData,
    AuthenticationResponse,
    AuthenticatorData,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from apps.accounts.attempts import is_first_use
from apps.accounts.models import Passkey, User

# Key of the session's data between the options and the response.
CHALLENGE = "_passkey_challenge"
VALID_S = 300
LONGEST_RESPONSE = 64 * 1024
VERIFIED = UserVerificationRequirement.REQUIRED
DEFAULT_PORTS = {"https": 443, "http": 80}


class Purpose(StrEnum):
    """What the response to a challenge is for. It is not accepted for anything else."""

    ADD = "add"
    SIGN_IN = "sign in"
    SECOND_STEP = "second step"
    CONFIRM = "confirm"


class NotVerifiedError(Exception):
    """A response is not what the challenge asked for. The text is for the audit log."""


def origin() -> str:
    """The origin that browsers report for a page of this server: that of PROVING_BASE_URL."""
    parts = urlsplit(settings.BASE_URL)
    port = f":{parts.port}" if parts.port and parts.port != DEFAULT_PORTS.get(parts.scheme) else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


def obstacle() -> str:
    """Why no browser can use a passkey at PROVING_BASE_URL; "" if browsers can."""
    parts = urlsplit(settings.BASE_URL)
    name = parts.hostname or ""
    if _is_address(name):
        return f"Passkeys need a host name, and this server is {origin()}. Its operator can set PROVING_BASE_URL."
    if parts.scheme != "https" and name != "localhost" and not name.endswith(".localhost"):
        return f"Passkeys need HTTPS, and this server is {origin()}. Its operator can set PROVING_BASE_URL."
    return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def creation_options(request: HttpRequest, user: User, handle: str, known: Iterable[Passkey]) -> dict[str, Any]:
    """Options to create a passkey that finds its user without a name, and that verifies the user by PIN, fingerprint or
    face. Authenticators with a passkey in `known` refuse."""
    entity = PublicKeyCredentialUserEntity(
        id=websafe_decode(handle), name=user.username, display_name=user.get_full_name() or user.username
    )
    options, _ = _server().register_begin(
        entity,
        _descriptors(known),
        ResidentKeyRequirement.REQUIRED,
        VERIFIED,
        challenge=_new_challenge(request, Purpose.ADD),
    )
    return dict(options)


def request_options(request: HttpRequest, purpose: Purpose, allowed: Iterable[Passkey] = ()) -> dict[str, Any]:
    """Options to use a passkey of `allowed`; without any, the browser offers those that it knows for this server."""
    options, _ = _server().authenticate_begin(
        _descriptors(allowed) or None, VERIFIED, challenge=_new_challenge(request, purpose)
    )
    return dict(options)


def created(request: HttpRequest, sent: str) -> AuthenticatorData:
    """The verified data of a new passkey. NotVerifiedError if the response is not one to this session's challenge."""
    state = _claim_challenge(request, Purpose.ADD)
    try:
        response = RegistrationResponse.from_dict(_parsed(sent))
        _refuse_frames(response.response.client_data.cross_origin)
        data = _server().register_complete(state, response)
        credential = data.credential_data
        if credential is None or credential.credential_id != response.raw_id:
            raise ValueError("The id is not that of the credential.")
    except NotVerifiedError:
        raise
    except Exception as error:
        raise NotVerifiedError(f"{error}"[:200] or type(error).__name__) from error
    return data


def parse(sent: str) -> AuthenticationResponse:
    """The response of a browser that used a passkey, not verified yet. NotVerifiedError if it is malformed."""
    try:
        return AuthenticationResponse.from_dict(_parsed(sent))
    except NotVerifiedError:
        raise
    except Exception as error:
        raise NotVerifiedError(f"malformed response: {error}"[:200]) from error


def verify(request: HttpRequest, purpose: Purpose, response: AuthenticationResponse, passkey: Passkey | None) -> None:
    """NotVerifiedError unless `passkey` signed this session's challenge at this server, after it verified the user. The
    challenge is used up in any case."""
    state = _claim_challenge(request, purpose)
    if passkey is None:
        raise NotVerifiedError("unknown passkey")
    handle = response.response.user_handle
    if handle is None and purpose == Purpose.SIGN_IN:
        raise NotVerifiedError("the response names no user")
    if handle is not None and websafe_encode(handle) != passkey.user_handle:
        raise NotVerifiedError("the passkey belongs to another user")
    _refuse_frames(response.response.client_data.cross_origin)
    try:
        _server().authenticate_complete(state, [AttestedCredentialData(bytes(passkey.credential))], response)
    except Exception as error:
        raise NotVerifiedError(f"{error}"[:200] or type(error).__name__) from error


def _refuse_frames(cross_origin: bool | None) -> None:
    """The content security policy allows no page of another origin to frame ours."""
    if cross_origin:
        raise NotVerifiedError("the page was in a frame of another origin")


def _server() -> Fido2Server:
    party = PublicKeyCredentialRpEntity(id=urlsplit(settings.BASE_URL).hostname or "", name="Proving Ground")
    server = Fido2Server(party, AttestationConveyancePreference.NONE, verify_origin=lambda sent: sent == origin())
    server.timeout = VALID_S * 1000  # type: ignore[assignment]  # its annotation is missing
    return server


def _descriptors(passkeys: Iterable[Passkey]) -> list[PublicKeyCredentialDescriptor]:
    kind = PublicKeyCredentialType.PUBLIC_KEY
    return [PublicKeyCredentialDescriptor(type=kind, id=websafe_decode(each.credential_id)) for each in passkeys]


def _new_challenge(request: HttpRequest, purpose: Purpose) -> bytes:
    """A challenge for this session, which replaces an earlier one."""
    challenge = secrets.token_bytes(32)
    until = time.time() + VALID_S
    request.session[CHALLENGE] = {"purpose": purpose, "challenge": websafe_encode(challenge), "until": until}
    return challenge


def _claim_challenge(request: HttpRequest, purpose: Purpose) -> dict[str, Any]:
    """The state that fido2 compares with. It always requires user verification."""
    mark = request.session.pop(CHALLENGE, None)
    if not mark or mark["purpose"] != purpose:
        raise NotVerifiedError("this session has no challenge for it")
    if time.time() > mark["until"]:
        raise NotVerifiedError("the challenge has expired")
    # Requests of one session that arrive together all read the challenge before one of them removes it.
    digest = hashlib.sha256(mark["challenge"].encode()).hexdigest()
    if not is_first_use("passkey-challenge", digest, 2 * VALID_S):
        raise NotVerifiedError("the challenge was used before")
    return {"challenge": mark["challenge"], "user_verification": VERIFIED}


def _parsed(sent: str) -> dict[str, Any]:
    if len(sent) > LONGEST_RESPONSE:
        raise NotVerifiedError("the response is too long")
    response = json.loads(sent)
    if not isinstance(response, dict):
        raise NotVerifiedError("the response is not an object")
    return response
