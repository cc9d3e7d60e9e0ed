"""The cache: JSON in Redis, so that an attacker who can write to it cannot run code here."""

from __future__ import annotations

import logging
from typing import Any

import orjson
from django.core.cache.backends.redis import RedisCache, RedisCacheClient

log = logging.getLogger(__name__)


class JsonSerializer:
    """A serializer for django.core.cache.backends.redis, whose default is pickle."""

    def dumps(self, value: Any) -> bytes | int:
        """Numbers stay numbers, for Redis counts with them."""
        return value if type(value) is int else orjson.dumps(value)

    def loads(self, stored: bytes) -> Any:
        """The value; None for one that is no JSON, as if it was missing."""
        try:
            return orjson.loads(stored)
        except orjson.JSONDecodeError as error:
            log.warning("a value of the cache is ignored: %s", error)
            return None


class OneClient(RedisCacheClient):
    """Django creates a client of Redis for each command, which takes longer than the command."""

    _made: Any = None

    def get_client(self, key: Any = None, *, write: bool = False) -> Any:
        """The client of this thread; there is only one server."""
        if self._made is None:
            self._made = super().get_client(key, write=write)
        return self._made


class JsonCache(RedisCache):
    """The cache of the server."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, {**params, "OPTIONS": {"serializer": JsonSerializer}})
        self._class = OneClient
