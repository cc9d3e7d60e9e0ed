"""Is the process up, and can it do its work? For healthchecks: without a login, and without a word of detail."""

from __future__ import annotations

import logging
from collections.abc import Callable

from celery import current_app
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)
BROKER_S = 2


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"process": "ok"})


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when database and broker answer, 503 naming the one that does not."""
    state = {"database": _state("database", _ask_database), "broker": _state("broker", _ask_broker)}
    return JsonResponse(state, status=200 if set(state.values()) == {"ok"} else 503)


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_broker() -> None:
    with current_app.connection_for_write(connect_timeout=BROKER_S) as broker:
        broker.ensure_connection(max_retries=1, timeout=BROKER_S)


def _state(name: str, ask: Callable[[], None]) -> str:
    try:
        ask()
    except (DatabaseError, OperationalError, OSError) as error:
        log.warning("not ready: %s: %s", name, error)
        return "unreachable"
    return "ok"
