"""Serializer of the cache: JSON, so that an attacker who can write to the cache cannot run code here."""

from __future__ import annotations

from typing import Any

import orjson


class JsonSerializer:
    """A serializer for django.core.cache.backends.redis, whose default is pickle."""

    def dumps(self, value: Any) -> bytes | int:
        """Numbers stay numbers, for Redis counts with them."""
        return value if type(value) is int else orjson.dumps(value)

    def loads(self, stored: bytes) -> Any:
        return orjson.loads(stored)
