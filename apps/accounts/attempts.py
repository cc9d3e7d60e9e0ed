"""Limits attempts per address before login: passwords, and links for forgotten ones.

django-axes locks a name for one address only, so that users cannot lock each other out. This limit counts all names
together, against attempts of one password with many names. Behind an unknown proxy, all clients share its address.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from dataclasses import dataclass

from django.core.cache import cache
from django.http import HttpRequest
from redis.exceptions import RedisError

from apps.infrastructure.addresses import without_mapping
from common.errors import UnreachableError

HOST_BITS = 64
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Attempts:
    """A limit of `most` attempts per address in each window of `window_s` seconds."""

    name: str
    most: int
    window_s: int

    def _key(self, request: HttpRequest) -> str:
        window = int(time.time()) // self.window_s
        return f"attempts:{self.name}:{counted_address(request)}:{window}"

    def count(self, request: HttpRequest) -> None:
        """One more of this address."""
        try:
            cache.add(self._key(request), 0, self.window_s)
            cache.incr(self._key(request))
        except (RedisError, ValueError) as error:
            log.warning("attempts at %s are not counted: %s", self.name, error)

    def wait_s(self, request: HttpRequest) -> int:
        """Return the seconds until this address may try again; 0 if it may now."""
        try:
            used = int(cache.get(self._key(request)) or 0)
        except RedisError as error:
            log.warning("attempts at %s are not counted: %s", self.name, error)
            return 0
        return self.window_s - int(time.time()) % self.window_s if used >= self.most else 0


def counted_address(request: HttpRequest) -> str:
    """The client's address, for which attempts are counted. IPv6: its network of 64 bits, all of whose addresses one
    client can use. django-axes calls this as well."""
    client = str(request.META.get("REMOTE_ADDR", ""))
    try:
        address = without_mapping(ipaddress.ip_address(client))
    except ValueError:  # a Unix socket has none
        return client
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Address(int(address) >> HOST_BITS << HOST_BITS))


def is_first_use(kind: str, digest: str, valid_s: int) -> bool:
    """Whether nobody has used the secret with this digest in the last `valid_s` seconds; from now on, somebody has.
    UnreachableError if Redis does not answer."""
    try:
        return cache.add(f"{kind}:{digest}", 1, valid_s)
    except RedisError as error:
        message = "whether this was used before cannot be verified"
        raise UnreachableError("Redis", message, hint="try again later") from error


FAILED_LOGINS = Attempts("login", most=30, window_s=900)
# Starts of a sign-in at the provider: each leaves a row for the session until it is finished or forgotten.
PROVIDER_SIGN_INS = Attempts("provider", most=60, window_s=300)
# ID tokens of CI jobs that were refused.
CI_SIGN_INS = Attempts("ci", most=60, window_s=300)
# Challenges for passkeys: each leaves a row for the session.
PASSKEY_SIGN_INS = Attempts("passkey", most=60, window_s=300)
FORGOTTEN = Attempts("forgotten", most=5, window_s=300)
