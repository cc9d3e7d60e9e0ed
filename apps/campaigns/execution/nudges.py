"""Wake the worker that follows a run before its wait ends: the run was cancelled, or a user watches it.

PostgreSQL delivers nudges (NOTIFY, on commit). A lost nudge only costs the rest of that wait."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
from django.core.cache import cache
from django.db import connection
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

CHANNEL = "proving_ground_runs"
WATCHED_S = 30
AGAIN_S = 2.0

listening = threading.Event()  # this process receives nudges
_followers: dict[str, Callable[[], None]] = {}


def nudge(run_id: UUID | str) -> None:
    """Wake the worker of the run now, or when this transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_notify(%s, %s)", [CHANNEL, str(run_id)])


def watch(run_id: UUID | str) -> None:
    """Note that a user watches this run: for half a minute, its events are read every second. Cheap."""
    try:
        if cache.add(_key(run_id), True, WATCHED_S):
            nudge(run_id)
    except (RedisError, OSError) as error:
        log.warning("cache unavailable, watchers of run %s not recorded: %s", run_id, error)


def is_watched(run_id: UUID | str) -> bool:
    """Whether a user watches the run; True if the cache is unavailable."""
    try:
        return bool(cache.get(_key(run_id)))
    except (RedisError, OSError):
        return True


def _key(run_id: UUID | str) -> str:
    return f"watched:{run_id}"


@contextmanager
def following(run_id: UUID, wake: Callable[[], None]) -> Iterator[None]:
    """Call `wake` from another thread whenever the run is nudged, during the `with` block."""
    _followers[str(run_id)] = wake
    try:
        yield
    finally:
        _followers.pop(str(run_id), None)


def wake_all() -> None:
    """End the waits of all ticks of this process."""
    for wake in list(_followers.values()):
        wake()


def listen() -> None:
    """Receive nudges from now on, in a separate thread and on a separate connection."""
    threading.Thread(target=_listen, name="nudges", daemon=True).start()


def _listen() -> None:
    while True:
        try:
            _hear()
        except psycopg.Error as error:
            log.warning("nudges unavailable: %s; next attempt in %g s", error, AGAIN_S)
        finally:
            listening.clear()
        time.sleep(AGAIN_S)


def _hear() -> None:
    params = connection.get_connection_params()
    with psycopg.connect(**{**params, "cursor_factory": psycopg.Cursor}, autocommit=True) as own:
        own.execute(f"listen {CHANNEL}")
        listening.set()
        for word in own.notifies():
            wake = _followers.get(word.payload)
            if wake:
                wake()
