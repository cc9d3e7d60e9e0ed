"""Serializer of the cache: JSON, so that an attacker who can write to the cache cannot run code here."""

from __future__ import annotations

import logging
from typing import Any

import orjson

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
