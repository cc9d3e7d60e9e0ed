"""Tasks take an id and make one call. Periodic tasks wake workers for what is due; `manage.py tick` does it at once."""

from __future__ import annotations

import time
from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps import tracing
from apps.campaigns.execution import claims, dispatch, queue
from apps.campaigns.models import Run
from apps.campaigns.schedules import firing
from apps.infrastructure import months, waking


@shared_task(name=queue.TICK)
def tick(run_id: str) -> None:
    """Tick a run, and then the one that it wakes, such as the next run of its host, for claims.FOLLOW_S in total."""
    deadline = time.monotonic() + claims.FOLLOW_S
    woken = _tick(run_id, deadline)
    while woken and time.monotonic() < deadline and not claims.stopping.is_set():
        tracing.continue_with(queue.TICK, UUID(woken))
        woken = _tick(woken, deadline)
    if woken:
        waking.send(queue.TICK, woken)


def _tick(run_id: str, deadline: float) -> str:
    """Return the first run that was woken; "" if none was."""
    with queue.first_wake_deferred() as woken:
        run = Run.objects.filter(pk=run_id).first()
        if run:  # a queued run may be deleted meanwhile
            dispatch.tick(run, deadline)
    return next(iter(woken), "")


@shared_task(name="campaigns.enqueue_due")
def enqueue_due() -> None:
    """Enqueue every due run that no worker has: the broker may have lost its messages, or a worker may have died."""
    queue.arm_idle_hosts()
    for run_id in list(Run.objects.due(timezone.now()).values_list("pk", flat=True)):
        if waking.is_at_once():
            tick(str(run_id))
        else:
            queue.wake_again(run_id)


@shared_task(name="campaigns.add_months")
def add_months() -> None:
    """Make room for the events of coming months."""
    months.add(timezone.now())
    months.analyze()


@shared_task(name="campaigns.fire")
def fire(schedule_id: str) -> None:
    firing.fire(UUID(schedule_id), timezone.now())


@shared_task(name="campaigns.fire_due")
def fire_due() -> None:
    """Schedules with a time that has come, or with a campaign whose start was interrupted."""
    for schedule_id in firing.due(timezone.now()):
        waking.carry_out(fire, str(schedule_id))
