"""Whoever can write to Redis runs no code here: values of the cache and messages of the broker are JSON."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.core.cache import cache
from kombu.exceptions import ContentDisallowed
from kombu.serialization import loads

from apps.web.json_cache import JsonSerializer


class Trap:
    """Its pickle creates a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


@pytest.fixture
def caught(tmp_path: Path) -> Path:
    return tmp_path / "caught"


@pytest.fixture
def trap(caught: Path) -> bytes:
    """The pickle, which works."""
    stored = pickle.dumps(Trap(caught))
    pickle.loads(stored)
    assert caught.exists()
    caught.unlink()
    return stored


@pytest.fixture
def redis() -> Any:
    """The client of the cache. It stores bytes unchanged."""
    assert isinstance(cache._cache._serializer, JsonSerializer)  # type: ignore[attr-defined]
    return cache._cache.get_client(None, write=True)  # type: ignore[attr-defined]


@pytest.mark.parametrize("read", [cache.get, lambda name: cache.get_many([name]).get(name)], ids=["get", "get_many"])
def test_a_pickle_in_the_cache_is_not_loaded(redis: Any, trap: bytes, caught: Path, read: Any) -> None:
    redis.set(cache.make_key("trap"), trap, ex=60)

    assert read("trap") is None
    assert not caught.exists()


@pytest.mark.parametrize("stored", [b"\x80\x04", b"{", b"nan", b"\xff", b""])
def test_a_damaged_value_is_missing(redis: Any, stored: bytes) -> None:
    redis.set(cache.make_key("damaged"), stored, ex=60)

    assert cache.get("damaged") is None


def test_values_are_read_as_they_were_written() -> None:
    for value in (0, 7, True, "text", ["a", 1.5], {"a": None}):
        cache.set("value", value, 60)
        assert cache.get("value") == value


def test_a_pickle_in_the_broker_is_not_loaded(trap: bytes, caught: Path) -> None:
    """A message names the type of its content itself."""
    with pytest.raises(ContentDisallowed):
        loads(trap, "application/x-python-serialize", "binary", accept=current_app.conf.accept_content)

    assert not caught.exists()
