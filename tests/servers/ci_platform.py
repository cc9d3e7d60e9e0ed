"""A CI platform on loopback, which signs ID tokens for its jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flask
import pytest
from django.core.cache import cache
from joserfc import jwt
from joserfc.jwk import RSAKey
from oidc_provider_mock._server import _threaded_server

from apps.accounts.ci import id_token

SHOP = {"repository": "acme/shop", "ref": "refs/heads/main"}


class Platform:
    """Its jobs are those of SHOP. While it is `down`, it answers 503; `reads` counts requests for its metadata."""

    def __init__(self, audience: str) -> None:
        self.key = RSAKey.generate_key(2048, auto_kid=True)
        self.audience, self.url, self.down, self.reads = audience, "", False, 0
        self.app = flask.Flask("platform")
        self.app.add_url_rule("/.well-known/openid-configuration", view_func=self._metadata)
        self.app.add_url_rule("/keys", view_func=self._keys)
        self.app.add_url_rule("/github", view_func=self._github)

    def claims(self, **others: Any) -> dict[str, Any]:
        """The claims of an ID token; None removes one."""
        now = int(time.time())
        known = {"iss": self.url, "aud": self.audience, "sub": "repo:acme/shop", "iat": now, "exp": now + 300}
        return {name: value for name, value in {**known, **SHOP, **others}.items() if value is not None}

    def sign(self, **others: Any) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, self.claims(**others), self.key)

    def _metadata(self) -> Any:
        self.reads += 1
        return ("down", 503) if self.down else {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}

    def _keys(self) -> Any:
        return {"keys": [self.key.as_dict(private=False)]}

    def _github(self) -> Any:
        """As GitHub Actions: the audience is a parameter, beside those that are in the address."""
        query = flask.request.args
        if flask.request.headers["Authorization"] != "Bearer of-the-job" or query["api-version"] != "2.0":
            return "refused", 403
        return {"value": self.sign(aud=query["audience"])}


@contextmanager
def serve(settings: Any, monkeypatch: pytest.MonkeyPatch, *, audience: str) -> Iterator[Platform]:
    """A platform that the server under test trusts, until the block ends."""
    platform = Platform(audience)
    with _threaded_server(app=platform.app) as server:
        platform.url = f"http://localhost:{server.server_port}"
        settings.CI_ISSUERS, settings.BASE_URL = (platform.url,), audience
        monkeypatch.setattr(id_token, "_known", {})
        monkeypatch.setattr(id_token, "_failed_at", {})
        cache.clear()  # refusals that earlier tests have counted
        yield platform
