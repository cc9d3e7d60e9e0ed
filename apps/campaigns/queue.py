"""The queue of a host: which run is next, and who is to be woken. PostgreSQL decides; Celery only carries the word."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from celery import current_app
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from apps.campaigns.models import Campaign, Run, RunPart, RunQuerySet
from apps.hosts.models import Host

log = logging.getLogger(__name__)


def arm_host(host_id: int) -> None:
    """Give the host's next queued run its first tick, unless a run of this host is armed or active. One that needs
    further hosts waits until they are free, too, and nobody overtakes it."""
    with transaction.atomic():
        host = Host.objects.select_for_update().get(pk=host_id)
        if host.state == Host.State.QUARANTINED:
            return
        if is_taken([host_id]):
            return
        runs = of_host(host)
        waiting = runs.filter(state=Run.State.QUEUED, campaign__state=Campaign.State.RUNNING)
        following = waiting.order_by("campaign__started_at", "position").first()
        if following and _has_others(following, host):
            Run.objects.filter(pk=following.pk).update(next_tick_at=timezone.now())
            wake(following.pk)


def of_host(host: Host) -> RunQuerySet:
    """Runs that this host has, or has a part in."""
    return Run.objects.filter(Q(host=host) | Q(pk__in=RunPart.objects.filter(host=host).values("run")))


def is_taken(hosts: Sequence[int]) -> bool:
    """Whether a run that is armed or active needs one of these hosts."""
    begun = ~Q(state__in=[Run.State.QUEUED, Run.State.ENDED]) | Q(state=Run.State.QUEUED, next_tick_at__isnull=False)
    parts = RunPart.objects.filter(host__in=hosts, run__in=Run.objects.filter(begun))
    return Run.objects.filter(begun, host__in=hosts).exists() or parts.exists()


def _has_others(run: Run, host: Host) -> bool:
    """Whether all further hosts of a run are free, and ours to give. Who finds one locked does not wait for it, as two
    could for each other: the next beat looks again."""
    needed = {run.host_id, *run.parts.values_list("host_id", flat=True)} - {host.pk}
    if not needed:
        return True
    locked = Host.objects.select_for_update(skip_locked=True).filter(pk__in=needed)
    free = [other.pk for other in locked if other.state != Host.State.QUARANTINED]
    return len(free) == len(needed) and not is_taken(free)


def arm_idle_hosts() -> None:
    """Arm every host that has waiting runs: what a lost message or a crash between two runs left behind."""
    waiting = Run.objects.filter(state=Run.State.QUEUED, next_tick_at=None, campaign__state=Campaign.State.RUNNING)
    for host_id in waiting.values_list("host_id", flat=True).distinct():
        arm_host(host_id)


def close_campaign(campaign_id: UUID) -> None:
    """Finish a campaign whose last run has ended; a cancelled one gets its end time."""
    if Run.objects.filter(campaign_id=campaign_id).exclude(state=Run.State.ENDED).exists():
        return
    campaign = Campaign.objects.filter(pk=campaign_id, ended_at=None)
    campaign.filter(state=Campaign.State.RUNNING).update(state=Campaign.State.FINISHED)
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
