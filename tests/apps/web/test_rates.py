"""Rate limits of the API, and their responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import override_settings

from apps.accounts.models import User
from apps.web import rates
from tests.rows.factories import browser, script

URL = "/api/v1/me/"


@pytest.fixture(autouse=True)
def minute(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The clock, ten seconds after a minute began."""
    now = [60_000_010.0 - 60_000_010.0 % 60 + 10]
    monkeypatch.setattr(rates.time, "time", lambda: now[0])
    cache.clear()
    yield now
    cache.clear()


@override_settings(API_PER_TOKEN_MIN=2, API_PER_USER_MIN=100)
def test_a_token_over_its_limit_gets_the_time_to_retry(viewer: User, minute: list[float]) -> None:
    client = script(viewer)

    answers = [client.get(URL) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    refused = answers[-1]
    assert (refused["Content-Type"], refused["Retry-After"]) == ("application/problem+json", "50")
    assert refused.json()["hint"] == "wait for the time in Retry-After"
    assert refused["RateLimit"].startswith('"token";r=0;t=50')
    minute[0] += 50
    assert client.get(URL).status_code == 200


@override_settings(API_PER_TOKEN_MIN=100, API_PER_USER_MIN=3)
def test_all_tokens_and_the_browser_of_a_user_count_together(viewer: User, admin: User) -> None:
    clients = [script(viewer), script(viewer), browser(viewer), script(viewer)]

    assert [client.get(URL).status_code for client in clients] == [200, 200, 200, 429]
    assert script(admin).get(URL).status_code == 200


@override_settings(API_PER_TOKEN_MIN=10, API_PER_USER_MIN=20)
def test_each_answer_has_the_remaining_requests(viewer: User) -> None:
    answer = script(viewer).get(URL)

    assert answer["RateLimit-Policy"] == '"token";q=10;w=60, "user";q=20;w=60'
    assert answer["RateLimit"] == '"token";r=9;t=50, "user";r=19;t=50'


@override_settings(API_PER_TOKEN_MIN=0, API_PER_USER_MIN=0)
def test_0_disables_the_limit(viewer: User) -> None:
    assert not script(viewer).get(URL).has_header("RateLimit")


@override_settings(
    API_PER_TOKEN_MIN=1,
    CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:9/0"}},
)
def test_without_the_cache_no_request_is_refused(viewer: User) -> None:
    client: Any = script(viewer)

    assert [client.get(URL).status_code for _ in range(2)] == [200, 200]
