"""The company's OpenID Connect provider: where sign-in starts, what it confirms, and where sign-out ends."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any

from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.django_client import DjangoIntegration, DjangoOAuth2App
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from joserfc.errors import JoseError
from requests.exceptions import RequestException

from common.errors import RoleError, UnreachableError

NAME = "provider"
TIMEOUT_S = 10
# Metadata and keys are read again after this time, so a key that the provider withdrew is not trusted for longer.
METADATA_S = 3600
CLOCK_SKEW_S = 60
# Signatures by the provider's private key. `none`, and HMAC with the client secret, are refused.
ALGORITHMS = frozenset(
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
)
WELL_KNOWN = "/.well-known/openid-configuration"
AGAIN = "start again on the login page"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Confirmed:
    """The provider's statement about an account: its claims, and the tokens that renew and end the session there."""

    issuer: str
    subject: str
    claims: dict[str, Any]
    refresh_token: str = ""
    id_token: str = ""


class Client(DjangoOAuth2App):  # type: ignore[misc]  # authlib has no types
    """Authlib's client, which accepts only metadata of the configured issuer and only asymmetric signatures."""

    def load_server_metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = super().load_server_metadata()
        issuer = str(metadata.get("issuer", ""))
        if issuer.rstrip("/") != settings.OIDC_ISSUER.rstrip("/"):
            raise UnreachableError(settings.OIDC_NAME, f"its metadata name another issuer: {issuer[:200]!r}")
        offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        metadata["id_token_signing_alg_values_supported"] = [each for each in offered if each in ALGORITHMS]
        return metadata

    def _get_oauth_client(self, **metadata: Any) -> Any:
        """Sends the client secret in the way that the provider supports; HTTP Basic where it does not say."""
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if self.client_secret and "client_secret_basic" not in methods and "client_secret_post" in methods:
            metadata["token_endpoint_auth_method"] = "client_secret_post"  # noqa: S105 - the name of a method
        return super()._get_oauth_client(**metadata)


_lock = threading.Lock()
_clients: dict[tuple[str, ...], tuple[float, Client]] = {}


def client() -> Client:
    """The client of the configured provider; a new one, without cached metadata, after METADATA_S."""
    key = (settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET, settings.OIDC_SCOPES)
    with _lock:
        made, known = _clients.get(key, (0.0, None))
        if known is None or time.monotonic() - made > METADATA_S:
            known = _new_client()
            _clients[key] = (time.monotonic(), known)
        return known


def _new_client() -> Client:
    arguments = {
        "scope": settings.OIDC_SCOPES,
        "code_challenge_method": "S256",
        "default_timeout": TIMEOUT_S,
        "leeway": 0,  # else authlib refreshes a short-lived access token by itself, and loses the new refresh token
        "verify": settings.OIDC_CA_BUNDLE or True,
    }
    return Client(
        DjangoIntegration(NAME),
        NAME,
        client_id=settings.OIDC_CLIENT_ID,
        client_secret=settings.OIDC_CLIENT_SECRET or None,
        server_metadata_url=settings.OIDC_ISSUER.rstrip("/") + WELL_KNOWN,
        client_kwargs=arguments,
    )


def begin(request: HttpRequest, **saved: Any) -> str:
    """The provider's address for the browser. State, nonce and PKCE verifier stay in the session, with `saved` for
    `finish`. UnreachableError if the provider's metadata cannot be read."""
    ours = client()
    callback = settings.BASE_URL + reverse("oidc_callback")
    try:
        made = ours.create_authorization_url(callback, state=generate_token(40))
    except (RequestException, ValueError, RuntimeError) as error:
        raise _unreachable(error) from error
    ours.save_authorize_data(request, redirect_uri=callback, kept=saved, **made)
    return str(made["url"])


def finish(request: HttpRequest) -> tuple[Confirmed, dict[str, Any]]:
    """Return the provider's statement at the callback, and the data that `begin` saved.

    RoleError if the answer does not belong to this browser, or its ID token is not valid: signature, issuer, audience,
    expiry, nonce. UnreachableError if the provider does not answer. A state works once.
    """
    ours = client()
    started = ours.framework.get_state_data(request.session, request.GET.get("state")) or {}
    try:
        token = ours.authorize_access_token(request, claims_options=_expected(ours), leeway=CLOCK_SKEW_S)
        return _confirmed(ours, token, token.get("userinfo")), started.get("kept", {})
    except (OAuthError, JoseError) as error:
        raise refused(_reason(error)) from error
    except (RequestException, ValueError, RuntimeError, KeyError) as error:
        raise _unreachable(error) from error


def renew(refresh_token: str, subject: str) -> Confirmed:
    """Return the provider's present statement about the account `subject`. RoleError if it refuses the refresh token,
    or answers for another account; UnreachableError if it does not answer."""
    ours = client()
    try:
        metadata = ours.load_server_metadata()
        with ours._get_oauth_client(**metadata) as session:
            token = session.refresh_token(metadata["token_endpoint"], refresh_token=refresh_token)
        # A refreshed ID token may lack the nonce (OpenID Connect Core, 12.2).
        claims = ours.parse_id_token(token, nonce=None, claims_options=_expected(ours), leeway=CLOCK_SKEW_S)
        confirmed = _confirmed(ours, token, claims, subject=subject)
    except OAuthError as error:
        if error.error == "invalid_grant":
            raise refused(_reason(error)) from error
        raise _unreachable(error) from error
    except JoseError as error:
        raise refused(_reason(error)) from error
    except (RequestException, ValueError, RuntimeError, KeyError) as error:
        raise _unreachable(error) from error
    if confirmed.subject != subject:
        raise refused("the provider answered for another account")
    return confirmed


def logout_address(id_token: str) -> str:
    """Return the URL that ends the browser's session at the provider; "" if it has none or is unreachable."""
    back = settings.BASE_URL + reverse("login")
    try:
        made = client().create_logout_url(
            post_logout_redirect_uri=back, id_token_hint=id_token or None, client_id=settings.OIDC_CLIENT_ID
        )
    except (RequestException, ValueError, RuntimeError, UnreachableError) as error:
        log.warning("no sign-out at %s: %s", settings.OIDC_NAME, error)
        return ""
    return str(made["url"])


def _expected(ours: Client) -> dict[str, Any]:
    """Return the claims that an ID token needs. Authlib alone accepts a foreign audience if `azp` names this client."""
    issuer = ours.load_server_metadata()["issuer"]
    return {
        "iss": {"essential": True, "value": issuer},
        "sub": {"essential": True},
        "aud": {"essential": True, "value": settings.OIDC_CLIENT_ID},
    }


def _confirmed(ours: Client, token: dict[str, Any], claims: Any, *, subject: str = "") -> Confirmed:
    """The claims of the ID token, over those of the userinfo endpoint, which must be of the same account. `subject` is
    the account of a refresh without an ID token."""
    if claims is None and not subject:
        raise refused("the provider sent no ID token; the scopes must include openid")
    subject = str(claims["sub"]) if claims is not None else subject
    merged = {**_userinfo(ours, token, subject), **(claims or {})}
    issuer = str(ours.load_server_metadata()["issuer"])
    renewing = str(token.get("refresh_token") or "")
    return Confirmed(issuer, subject, merged, renewing, str(token.get("id_token") or ""))


def _userinfo(ours: Client, token: dict[str, Any], subject: str) -> dict[str, Any]:
    if "userinfo_endpoint" not in ours.load_server_metadata():
        return {}
    userinfo = dict(ours.userinfo(token=token))
    if userinfo.get("sub") != subject:
        raise refused("the userinfo endpoint answered for another account")
    return userinfo


def refused(message: str, *, hint: str = AGAIN) -> RoleError:
    """The refusal of a sign-in."""
    return RoleError("sign-in", message, hint=hint)


def _reason(error: Exception) -> str:
    """A sentence that names the check that failed; never a token."""
    if isinstance(error, OAuthError):
        if error.error == "mismatching_state":
            return "this answer does not belong to a sign-in that this browser started"
        return f"the provider refused: {str(error.error)[:100]} {str(error.description or '')[:200]}".strip()
    return f"the ID token is not valid: {str(error)[:200]}"


def _unreachable(error: Exception) -> UnreachableError:
    log.warning("provider %s: %s", settings.OIDC_ISSUER, error)
    return UnreachableError(settings.OIDC_NAME, "the provider does not answer as expected", hint="try again later")
