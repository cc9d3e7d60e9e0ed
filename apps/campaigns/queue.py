"""The queue of a host: which run is next, and who is to be woken. PostgreSQL decides; Celery only carries the word."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.accounts import waking
from apps.campaigns import ending, queries
from apps.campaigns.models import Campaign, Run, RunQuerySet
from apps.hosts import reservations, windows
from apps.hosts.models import Host

OUT_OF_SERVICE = (Host.State.QUARANTINED, Host.State.UNFIT)


def waiting(host: Host) -> RunQuerySet:
    """Its queued runs in the order in which they go: by priority, then who came first, then as planned."""
    queued = Run.objects.filter(host=host, state=Run.State.QUEUED, campaign__state=Campaign.State.RUNNING)
    return queued.order_by("-campaign__priority", "campaign__started_at", "position")


def arm_host(host_id: int) -> None:
    """Give the host's next queued run its first tick, unless a run of this host is armed or active."""
    with transaction.atomic():
        host = Host.objects.select_for_update().get(pk=host_id)
        runs = Run.objects.filter(host=host)
        if runs.active().exists() or runs.filter(state=Run.State.QUEUED, next_tick_at__isnull=False).exists():
            return
        following = waiting(host).first()
        if following and not hindrance(host, following, timezone.now()):
            Run.objects.filter(pk=following.pk).update(next_tick_at=timezone.now())
            wake(following.pk)


def hindrance(host: Host, run: Run, now: datetime) -> str:
    """Why this run must not begin on its host now, in words; "" where nothing stands against it."""
    if host.state in OUT_OF_SERVICE:
        return f"{host} is {host.state}: {host.state_reason}"
    calendar = windows.read(host.windows, host.time_zone)
    reserved = reservations.in_force(host, now)
    if reserved:
        until = windows.shown(reserved.until, calendar.zone, now)
        return f"reserved by {reserved.by} until {until}: {reserved.reason}"
    return closed(calendar, queries.run_seconds(run) if calendar.windows else 0.0, now)


def closed(calendar: windows.Calendar, seconds: float, now: datetime) -> str:
    """Why a run of so many seconds must not begin now for want of a window; "" where it may."""
    begins = calendar.begin(now, seconds)
    if begins <= now:
        return ""
    inside = calendar.open_until(now) is not None
    where = "what is left of its window is too short for the next run" if inside else "outside its window"
    return f"{where}: next begins {windows.shown(begins, calendar.zone, now)}"


def arm_idle_hosts() -> None:
    """Arm every host that has waiting runs: what a lost message or a crash between two runs left behind."""
    waits = Run.objects.filter(state=Run.State.QUEUED, next_tick_at=None, campaign__state=Campaign.State.RUNNING)
    for host_id in waits.order_by().values_list("host_id", flat=True).distinct():
        arm_host(host_id)


def close_campaign(campaign_id: UUID) -> None:
    """Finish a campaign whose last run has ended; a cancelled one gets its end time."""
    if Run.objects.filter(campaign_id=campaign_id).exclude(state=Run.State.ENDED).exists():
        return
    campaign = Campaign.objects.filter(pk=campaign_id, ended_at=None)
    finished = campaign.filter(state=Campaign.State.RUNNING).update(state=Campaign.State.FINISHED)
    campaign.exclude(state=Campaign.State.DRAFT).update(ended_at=timezone.now())
    if finished:
        ending.tell(Campaign.objects.get(pk=campaign_id))


def rearm(run: Run, seconds: float) -> None:
    """Let go of our claim, and want the next tick in `seconds`."""
    run.mine().update(next_tick_at=timezone.now() + timedelta(seconds=seconds), claimed_until=None)
    if seconds == 0:
        wake(run.pk)


def wake(run_id: UUID) -> None:
    """Tell a worker after the commit. Without a broker the beat, or `manage.py tick`, finds the run all the same."""
    transaction.on_commit(lambda: waking.send("campaigns.tick", str(run_id)))
