"""A provider of OpenID Connect on loopback, for tests: oidc-provider-mock, which also checks PKCE and can lie.

`serve()` runs it; `Provider.answer` does the login of a user there.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import flask
import requests
from django.test import Client
from django.urls import reverse
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # else the mock refuses http, on loopback too
import oidc_provider_mock
from oidc_provider_mock._server import _threaded_server

CLIENT_ID, SECRET = "proving-ground", "a-secret-of-the-client"
HTTP_S = 30
Forge = Callable[[dict[str, Any], RSAKey], str]


class Provider:
    """`forge`, if set, makes the ID token instead of the provider, from its claims and key. `down`: the token endpoint
    answers 503. Without `refreshes` it issues no refresh token. `issuer`, if set, is in its metadata."""

    def __init__(self, app: flask.Flask) -> None:
        self.app, self.url = app, ""
        self.honest()
        self._challenges: dict[str, str] = {}
        app.before_request(self._before)
        app.after_request(self._after)

    def honest(self) -> None:
        """From now on it answers as it should."""
        self.forge: Forge | None = None
        self.down, self.issuer, self.refreshes = False, "", True
        self.asked: list[str] = []  # grant types of requests at the token endpoint

    def user(self, subject: str, *groups: str, **claims: Any) -> None:
        """Add an account with these groups."""
        claims = {"preferred_username": subject, "groups": list(groups), **claims}
        requests.put(f"{self.url}/users/{subject}", json=claims, timeout=HTTP_S).raise_for_status()

    def revoke(self, subject: str) -> None:
        """Sign them out there: their refresh tokens are refused from now on."""
        requests.post(f"{self.url}/users/{subject}/revoke-tokens", timeout=HTTP_S).raise_for_status()

    def answer(self, address: str, subject: str) -> str:
        """Log in there at the address of an authorization request: the address that leads back."""
        sent = requests.post(address, data={"sub": subject}, allow_redirects=False, timeout=HTTP_S)
        assert sent.status_code == 302, sent.text
        return sent.headers["Location"]

    def sign_in(self, client: Client, subject: str, **query: str) -> Any:
        """The whole way, as the browser `client` goes it: the response of the callback."""
        return client.get(self.answer(client.get(reverse("oidc_start"), query)["Location"], subject))

    def _before(self) -> Any:
        if flask.request.path != "/oauth2/token":
            return None
        form = flask.request.form
        self.asked.append(form["grant_type"])
        if self.down:
            return "down", 503
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = self._challenges.get(form.get("code", ""))
        if form["grant_type"] == "authorization_code" and _unpadded(verifier) != challenge:
            return {"error": "invalid_grant", "error_description": "PKCE"}, 400
        return None

    def _after(self, response: Any) -> Any:
        request = flask.request
        if request.path == "/oauth2/authorize" and response.status_code == 302:
            assert request.args["code_challenge_method"] == "S256"
            (code,) = parse_qs(urlsplit(response.headers["Location"]).query)["code"]
            self._challenges[code] = request.args["code_challenge"]
        if request.path == "/oauth2/token" and self.forge and "id_token" in (response.get_json(silent=True) or {}):
            key = RSAKey.import_key(flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True))
            body = response.get_json()
            claims = jwt.decode(body["id_token"], KeySet([key]), algorithms=["RS256"]).claims
            response.set_data(flask.json.dumps({**body, "id_token": self.forge(claims, key)}))
        if request.path == "/oauth2/token" and not self.refreshes:
            body = response.get_json()
            body.pop("refresh_token", None)
            response.set_data(flask.json.dumps(body))
        if request.path.endswith("/openid-configuration") and self.issuer:
            response.set_data(flask.json.dumps({**response.get_json(), "issuer": self.issuer}))
        return response


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(claims: dict[str, Any], key: RSAKey) -> str:
    """An ID token with these claims, as the provider itself signs."""
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


def signed_with_hmac(claims: dict[str, Any], secret: bytes, kid: str = "") -> str:
    """HS256 by hand: libraries refuse a public key as the secret, and an attacker does not use them."""
    header = {"alg": "HS256", **({"kid": kid} if kid else {})}
    text = ".".join(_unpadded(json.dumps(each).encode()) for each in (header, claims))
    return f"{text}.{_unpadded(hmac.digest(secret, text.encode(), 'sha256'))}"


@contextmanager
def serve() -> Iterator[Provider]:
    """A provider, until the block ends."""
    provider = Provider(oidc_provider_mock.app())
    with _threaded_server(app=provider.app) as server:
        provider.url = f"http://localhost:{server.server_port}"
        yield provider


def configure(settings: Any, provider: Provider, **others: Any) -> None:
    """Let the server under test use it."""
    settings.OIDC_ISSUER, settings.OIDC_NAME = provider.url, "Example Corp"
    settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT_ID, SECRET
    settings.BASE_URL = "http://testserver"
    for name, value in others.items():
        setattr(settings, name, value)
