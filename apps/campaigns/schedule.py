"""SELECT only: the queue of a host as people read it: what runs, what waits in which order, and why nothing begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min

from apps.campaigns import plan, queries, queue
from apps.campaigns.models import Campaign, Run
from apps.hosts import reservations, windows
from apps.hosts.models import Host, Reservation


@dataclass(frozen=True)
class Waiting:
    """What a campaign has in the queue of a host; when it begins and ends is None while the host is out of service."""

    campaign: Campaign
    runs: int
    first: int
    seconds: float
    begins: datetime | None
    ends: datetime | None
    fits: bool


@dataclass(frozen=True)
class Schedule:
    """`why`: what keeps the next run from beginning, in words; "" where nothing does, or nothing waits."""

    host: Host
    active: Run | None
    active_ends: datetime | None
    reservation: Reservation | None
    why: str
    waiting: list[Waiting]

    @property
    def runs(self) -> int:
        return sum(each.runs for each in self.waiting)


def schedule(host: Host, now: datetime) -> Schedule:
    """The queue in order, with the times at which campaigns are expected to begin and end there."""
    active = Run.objects.active().filter(host=host).select_related("campaign", "host").first()
    ends = _ends(active, now) if active else None
    reserved = reservations.in_force(host, now)
    calendar = windows.read(host.windows, host.time_zone)
    free = max(filter(None, (now, ends, reserved.until if reserved else None)))
    waits = list(_waiting(host, calendar, free if host.state not in queue.OUT_OF_SERVICE else None, now))
    following = None if active else queue.waiting(host).first()
    why = queue.hindrance(host, following, now) if following else ""
    return Schedule(host, active, ends, reserved, why, waits)


def _ends(run: Run, now: datetime) -> datetime:
    begun = run.started_at or now
    return max(now, begun + timedelta(seconds=queries.run_seconds(run)))


def _waiting(host: Host, calendar: windows.Calendar, free: datetime | None, now: datetime) -> Iterable[Waiting]:
    queued = queue.waiting(host).order_by().values("campaign").annotate(count=Count("pk"), first=Min("position"))
    counted = {row["campaign"]: row for row in queued}
    campaigns = Campaign.objects.filter(pk__in=counted).order_by("-priority", "started_at").select_related("created_by")
    for campaign in campaigns:
        count, seconds = counted[campaign.pk]["count"], _seconds(campaign, host)
        begins = ends = None
        if free:
            begins, ends = calendar.following(free, seconds, count)
            free = ends
        fits = calendar.fits(now, seconds)
        yield Waiting(campaign, count, counted[campaign.pk]["first"], seconds, begins, ends, fits)


def _seconds(campaign: Campaign, host: Host) -> float:
    """About how long one of its runs there takes: as those did that ended, else as the plan says."""
    runs = Run.objects.filter(campaign=campaign, host=host)
    took = queries.median_s(runs)
    if took:
        return took
    specs = runs.filter(state=Run.State.QUEUED).order_by().values("spec").annotate(count=Count("pk"))
    planned = [(row["count"], plan.seconds(row["spec"])) for row in specs]
    return float(sum(count * seconds for count, seconds in planned) / max(1, sum(count for count, _ in planned)))
