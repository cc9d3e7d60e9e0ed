"""Wakes workers. PostgreSQL decides what is due; Celery only sends the message."""

from __future__ import annotations

import logging

from celery import Task, current_app, current_task
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def send(task: str, *args: str, after_s: float = 0) -> None:
    """Send a task by name, so that an app can wake one that it may not import. It starts after `after_s` seconds."""
    try:
        current_app.send_task(task, args, retry=False, countdown=after_s or None)
    except (OperationalError, OSError) as error:
        log.warning("no broker for %s %s: %s; the next beat will pick it up", task, args, error)


def is_at_once() -> bool:
    """Return whether the present task was started by `manage.py tick`, which does all due work itself because there may
    be no worker to wake."""
    return bool(current_task) and bool(current_task.request.is_eager)


def carry_out(task: Task[..., None], key: int | str) -> None:
    """Have a worker carry out a task; at once where `manage.py tick` asks."""
    if is_at_once():
        task(key)
    else:
        send(task.name, str(key))
