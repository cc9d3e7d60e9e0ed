"""An OpenID Connect provider on this machine, for the tests of signing in with one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from apps.accounts.identity import provider as oidc
from tests.servers.provider import Provider, configure, serve


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with serve() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """The server is configured for this provider, which responds correctly. Keys of a provider are cached for an hour,
    so the cache is cleared first."""
    cache.clear()
    monkeypatch.setattr(oidc, "_clients", {})
    running.honest()
    configure(settings, running)
    return running
