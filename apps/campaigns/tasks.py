"""Take an id, make one call."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.campaigns.execution import dispatch, queue
from apps.campaigns.models import Run


@shared_task(name="campaigns.tick")
def tick(run_id: str) -> None:
    dispatch.tick(Run.objects.get(pk=run_id))


@shared_task(name="campaigns.enqueue_due")
def enqueue_due() -> None:
    """Everything that should be going on and is not: Redis may have been emptied, a worker may have died."""
    queue.arm_idle_hosts()
    for run_id in Run.objects.due(timezone.now()).values_list("pk", flat=True):
        queue.wake_again(run_id)
