"""The queue of a host for users: the active run, the order of waiting campaigns, and why none starts. Only reads
(SELECT)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min, Q

from apps.campaigns import queries
from apps.campaigns.execution import queue
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host, Reservation
from apps.hosts.usage import reservations, windows

LATE = timedelta(seconds=30)

Counts = tuple[int, int, int]  # of runs: ended, all, not ok


@dataclass(frozen=True)
class Waiting:
    """A campaign in the queue of a host. Its expected start and end are None while the host is out of service."""

    campaign: Campaign
    runs: int
    first: int
    seconds: float
    begins: datetime | None
    ends: datetime | None
    fits: bool


@dataclass(frozen=True)
class HostSchedule:
    """`why`: the reason why the next run does not start; "" if there is none, or if nothing waits."""

    host: Host
    active: Run | None
    active_ends: datetime | None
    reservation: Reservation | None
    why: str
    waiting: list[Waiting]

    @property
    def runs(self) -> int:
        return sum(campaign.runs for campaign in self.waiting)


def schedule(host: Host, now: datetime) -> HostSchedule:
    """The queue in order, with the times at which campaigns are expected to begin and end there."""
    active = Run.objects.active().filter(host=host).select_related("campaign", "host").first()
    ends = _ends(active, now) if active else None
    reserved = reservations.in_force(host, now)
    calendar = windows.read(host.windows, host.time_zone)
    free = max(filter(None, (now, ends, reserved.until if reserved else None)))
    waits = list(_waiting(host, calendar, free if host.state not in queue.OUT_OF_SERVICE else None, now))
    following = None if active else queue.waiting(host).first()
    return HostSchedule(host, active, ends, reserved, _why(host, following, reserved, now) if following else "", waits)


@dataclass(frozen=True)
class OnHost:
    """The progress of a campaign on one of its hosts, and its active run there or the reason why none starts."""

    host: Host
    done: int
    total: int
    failed: int
    active: Run | None
    why: str


def counts(campaign: Campaign) -> dict[int, Counts]:
    """Return the counts of each host with runs of the campaign; one query."""
    ended, not_ok = Q(state=Run.State.ENDED), Q(outcome__in=queries.NOT_OK)
    runs = campaign.runs.order_by().values_list("host")
    rows = runs.annotate(done=Count("pk", filter=ended), total=Count("pk"), failed=Count("pk", filter=not_ok))
    return {host: (done, total, failed) for host, done, total, failed in rows}


def by_host(campaign: Campaign, now: datetime, counted: Mapping[int, Counts] | None = None) -> list[OnHost]:
    """In the order of the hosts' names, for any number of them: three queries, five more if some are idle. `counted`:
    its `counts`, where they are known."""
    of_host = counts(campaign) if counted is None else counted
    runs = () if campaign.ended_at else campaign.runs.active().select_related("campaign")
    active = {run.host_id: run for run in runs}
    hosts = list(Host.objects.filter(pk__in=of_host).order_by("name"))
    waits = [host for host in hosts if host.pk not in active and of_host[host.pk][0] < of_host[host.pk][1]]
    why = waiting_reasons(waits, now) if waits and campaign.state == Campaign.State.RUNNING else {}
    return [OnHost(host, *of_host[host.pk], active.get(host.pk), why.get(host.pk, "")) for host in hosts]


def waiting_reasons(hosts: Collection[Host], now: datetime) -> dict[int, str]:
    """{host: why the next run of an idle host does not start}, without hosts of which none waits. Five queries."""
    active = set(Run.objects.active().filter(host__in=hosts).order_by().values_list("host", flat=True))
    idle = {host.pk: host for host in hosts if host.pk not in active}
    following, reserved = queue.next_runs(idle.values()), reservations.in_force_on(idle.values(), now)
    return {pk: _why(idle[pk], run, reserved.get(pk), now) for pk, run in following.items()}


def _why(host: Host, following: Run, reserved: Reservation | None, now: datetime) -> str:
    return queue.unsuitable(host) or queue.hindered(host, following, reserved, now) or _waits_for(following, now)


def _waits_for(run: Run, now: datetime) -> str:
    """Why the last attempt to start the run failed, or that no dispatcher has claimed the run in time; else ""."""
    if run.error:
        return str(run.error["message"])
    claimed = run.claimed_until is not None and run.claimed_until >= now
    if run.next_tick_at is None or claimed or now - run.next_tick_at < LATE:
        return ""
    waited = (now - run.next_tick_at).total_seconds()
    return f"no dispatcher has claimed it for {waited:.0f} s; check that one is running"


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
    """Return the estimated duration of one of its runs there: from its ended runs, else as estimated before the
    start."""
    runs = Run.objects.filter(campaign=campaign, host=host)
    took = queries.median_s(runs)
    if took:
        return took
    learned = queries.estimates(host)
    specs = runs.filter(state=Run.State.QUEUED).order_by().values("spec").annotate(count=Count("pk"))
    planned = [(row["count"], learned.seconds(row["spec"])) for row in specs]
    return float(sum(count * seconds for count, seconds in planned) / max(1, sum(count for count, _ in planned)))
