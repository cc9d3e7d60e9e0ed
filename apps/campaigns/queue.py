"""The queue of a host: which run is next, and who is to be woken. PostgreSQL decides; Celery only carries the word."""

from __future__ import annotations

import logging
from datetime import timedelta
from uuid import UUID

from celery import current_app
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host

log = logging.getLogger(__name__)

# Its campaign is not paused, and its block does not wait for a look at the ones before it.
MAY_BEGIN = Q(state=Run.State.QUEUED, campaign__state=Campaign.State.RUNNING) & (
    Q(campaign__open_blocks=None) | Q(block__lt=F("campaign__open_blocks"))
)


def arm_host(host_id: int) -> None:
    """Give the host's next queued run its first tick, unless a run of this host is armed or active."""
    with transaction.atomic():
        host = Host.objects.select_for_update().get(pk=host_id)
        if host.state == Host.State.QUARANTINED:
            return
        runs = Run.objects.filter(host=host)
        if runs.active().exists() or runs.filter(state=Run.State.QUEUED, next_tick_at__isnull=False).exists():
            return
        waiting = runs.filter(MAY_BEGIN)
        following = waiting.order_by("campaign__started_at", "position").first()
        if following:
            Run.objects.filter(pk=following.pk).update(next_tick_at=timezone.now())
            wake(following.pk)


def arm_idle_hosts() -> None:
    """Arm every host that has waiting runs: what a lost message or a crash between two runs left behind."""
    waiting = Run.objects.filter(MAY_BEGIN, next_tick_at=None)
    for host_id in waiting.values_list("host_id", flat=True).distinct():
        arm_host(host_id)


def close_campaign(campaign_id: UUID) -> None:
    """Finish a campaign whose last run has ended; a cancelled one gets its end time."""
    if Run.objects.filter(campaign_id=campaign_id).exclude(state=Run.State.ENDED).exists():
        return
    campaign = Campaign.objects.filter(pk=campaign_id, ended_at=None)
    going_on = [Campaign.State.RUNNING, Campaign.State.PAUSED]
    campaign.filter(state__in=going_on).update(state=Campaign.State.FINISHED)
    campaign.exclude(state=Campaign.State.DRAFT).update(ended_at=timezone.now())


def rearm(run: Run, seconds: float) -> None:
    """Let go of our claim, and want the next tick in `seconds`."""
    run.mine().update(next_tick_at=timezone.now() + timedelta(seconds=seconds), claimed_until=None)
    if seconds == 0:
        wake(run.pk)


def wake(run_id: UUID) -> None:
    """Tell a worker after the commit. Without a broker the beat, or `manage.py tick`, finds the run all the same."""
    transaction.on_commit(lambda: send("campaigns.tick", str(run_id)))


def send(task: str, *args: str) -> None:
    """Send a task by name, so that a lower room can wake a higher one."""
    try:
        current_app.send_task(task, args, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("no broker for %s %s: %s; the next beat will find it", task, args, error)
