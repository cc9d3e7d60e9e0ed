"""Health checks: whether the process is up, and whether it is ready. They need no login and reveal no details."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache

from celery import current_app
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.cache import caches
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)
BROKER_S = 2


class BehindError(Exception):
    """The database is of an older version than this code."""


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"process": "ok"})


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return the state of database, migrations, cache and broker, with the version and commit of this process. The
    status is 200 if all are ok, otherwise 503."""
    state: dict[str, str] = {}
    for name, ask in PARTS.items():
        # Each attempt to reach a database that is down takes as long as apps/ready.py waits for all parts.
        is_down = name == "migrations" and state["database"] != "ok"
        state[name] = state["database"] if is_down else _state(name, ask)
    build = {"version": settings.VERSION, "commit": settings.COMMIT}
    return JsonResponse(state | build, status=200 if set(state.values()) == {"ok"} else 503)


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_migrations() -> None:
    missing = _leaves() - set(MigrationRecorder(connection).applied_migrations())
    if missing:
        raise BehindError(", ".join(sorted(".".join(key) for key in missing)))


@cache
def _leaves() -> frozenset[tuple[str, str]]:
    """Return the newest migrations of each app in this code."""
    return frozenset(MigrationLoader(None).graph.leaf_nodes())


def _ask_cache() -> None:
    caches["default"].get("readyz")


def _ask_broker() -> None:
    with current_app.connection_for_write(connect_timeout=BROKER_S) as broker:
        broker.ensure_connection(max_retries=1, timeout=BROKER_S)


PARTS: dict[str, Callable[[], None]] = {
    "database": _ask_database,
    "migrations": _ask_migrations,
    "cache": _ask_cache,
    "broker": _ask_broker,
}


def _state(name: str, ask: Callable[[], None]) -> str:
    try:
        ask()
    except BehindError as error:
        log.warning("not ready, migrations are not applied: %s", error)
        return "behind"
    except (DatabaseError, OperationalError, RedisError, OSError) as error:
        log.warning("not ready: %s: %s", name, error)
        return "unreachable"
    return "ok"
