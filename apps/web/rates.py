"""Rate limits of the API: requests per minute, per token and per user, counted in the cache."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.accounts.models import ApiToken, User

WINDOW_S = 60
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rate:
    """The rest of a limit, and the seconds until it is full again."""

    name: str
    limit: int
    left: int
    reset_s: int

    @property
    def exceeded(self) -> bool:
        return self.left < 0


class RequestRates(BaseThrottle):
    """Every request of the API counts, for its token and for its user."""

    rates: list[Rate]

    def allow_request(self, request: Request, view: Any) -> bool:
        self.rates = [count_request(*limit) for limit in _limits(request)]
        request._request.rates = self.rates  # type: ignore[attr-defined]  # for the headers of its answer
        return not any(rate.exceeded for rate in self.rates)

    def wait(self) -> float | None:
        return max((rate.reset_s for rate in self.rates if rate.exceeded), default=None)


def _limits(request: Request) -> list[tuple[str, int, int]]:
    """(name, key of the row, requests in a minute); a setting of 0 limits nothing."""
    limits = []
    if isinstance(request.auth, ApiToken):
        limits.append(("token", request.auth.pk, settings.API_PER_TOKEN_MIN))
    if isinstance(request.user, User):
        limits.append(("user", request.user.pk, settings.API_PER_USER_MIN))
    return [limit for limit in limits if limit[2]]


def count_request(name: str, key: int, limit: int) -> Rate:
    """This request counted in the minute of the clock that it falls into."""
    minute, second = divmod(int(time.time()), WINDOW_S)
    place = f"rate:{name}:{key}:{minute}"
    try:
        cache.add(place, 0, 2 * WINDOW_S)
        count = cache.incr(place)
    except (RedisError, ValueError) as error:  # Redis is down or was emptied: refuse nothing
        log.warning("requests of %s %s are not counted: %s", name, key, error)
        count = 1
    return Rate(name, limit, limit - count, WINDOW_S - second)


class RatesMiddleware:
    """Adds the rest of the limit to responses (draft-ietf-httpapi-ratelimit-headers)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        rates: list[Rate] = getattr(request, "rates", [])
        if rates:
            response.headers["RateLimit-Policy"] = ", ".join(
                f'"{rate.name}";q={rate.limit};w={WINDOW_S}' for rate in rates
            )
            response.headers["RateLimit"] = ", ".join(
                f'"{rate.name}";r={max(0, rate.left)};t={rate.reset_s}' for rate in rates
            )
        return response
