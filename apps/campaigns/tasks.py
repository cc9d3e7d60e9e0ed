"""Tasks take an id and make one call. Periodic tasks wake workers for what is due; `manage.py tick` does it at once."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.accounts import waking
from apps.campaigns.execution import dispatch, queue
from apps.campaigns.models import Run
from apps.campaigns.schedules import firing


@shared_task(name="campaigns.tick")
def tick(run_id: str) -> None:
    run = Run.objects.filter(pk=run_id).first()
    if run:  # a queued run may be deleted meanwhile
        dispatch.tick(run)


@shared_task(name="campaigns.enqueue_due")
def enqueue_due() -> None:
    """Enqueue every due run that no worker has: the broker may have lost its messages, or a worker may have died."""
    queue.arm_idle_hosts()
    for run_id in list(Run.objects.due(timezone.now()).values_list("pk", flat=True)):
        if waking.is_at_once():
            tick(str(run_id))
        else:
            queue.wake_again(run_id)


@shared_task(name="campaigns.fire")
def fire(schedule_id: str) -> None:
    firing.fire(UUID(schedule_id), timezone.now())


@shared_task(name="campaigns.fire_due")
def fire_due() -> None:
    """Schedules with a time that has come, or with a campaign whose start was interrupted."""
    for schedule_id in firing.due(timezone.now()):
        waking.carry_out(fire, str(schedule_id))
