"""How often one address may try before anybody is logged in: names and passwords, and links for forgotten ones.

A name is locked for one address only (django-axes), so that nobody locks others out. This counts over all names, so
that nobody tries one password with each of them. The address is that of the client where the proxies are known, else
the proxy's, which all share.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from django.core.cache import cache
from django.http import HttpRequest
from redis.exceptions import RedisError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Attempts:
    """At most `most` in `window_s` seconds of the clock, per address."""

    name: str
    most: int
    window_s: int

    def _key(self, request: HttpRequest) -> str:
        window = int(time.time()) // self.window_s
        return f"attempts:{self.name}:{request.META.get('REMOTE_ADDR', '')}:{window}"

    def count(self, request: HttpRequest) -> None:
        """One more of this address."""
        try:
            cache.add(self._key(request), 0, self.window_s)
            cache.incr(self._key(request))
        except (RedisError, ValueError) as error:
            log.warning("attempts at %s are not counted: %s", self.name, error)

    def wait_s(self, request: HttpRequest) -> int:
        """For how many seconds nothing more is taken from this address; 0 where something is."""
        try:
            used = int(cache.get(self._key(request)) or 0)
        except RedisError as error:
            log.warning("attempts at %s are not counted: %s", self.name, error)
            return 0
        return self.window_s - int(time.time()) % self.window_s if used >= self.most else 0


FAILED_LOGINS = Attempts("login", most=30, window_s=900)
# Starts of a sign-in at the provider: each leaves a row for the session until it is finished or forgotten.
PROVIDER_SIGN_INS = Attempts("provider", most=60, window_s=300)
# ID tokens of CI jobs that were refused.
CI_SIGN_INS = Attempts("ci", most=60, window_s=300)
FORGOTTEN = Attempts("forgotten", most=5, window_s=300)
