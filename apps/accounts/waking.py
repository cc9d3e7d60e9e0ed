"""Waking a worker. PostgreSQL says what is due; Celery only carries the word."""

from __future__ import annotations

import logging

from celery import current_app
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def send(task: str, *args: str, after_s: float = 0) -> None:
    """Send a task by name, so that a lower room can wake a higher one; it is to begin in so many seconds."""
    try:
        current_app.send_task(task, args, retry=False, countdown=after_s or None)
    except (OperationalError, OSError) as error:
        log.warning("no broker for %s %s: %s; the next beat will find it", task, args, error)
