"""The queue of a host: which run is next, and which worker to wake. PostgreSQL decides; Celery only wakes workers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone
from redis.exceptions import RedisError

from apps.accounts.models.walls import everything
from apps.campaigns import queries
from apps.campaigns.models import Campaign, Run, RunPart, RunQuerySet
from apps.hosts.models import Host, Reservation
from apps.hosts.usage import reservations, windows
from apps.infrastructure import waking
from common.wording import host_state

log = logging.getLogger(__name__)

TICK = "campaigns.tick"
AGAIN_S = 10.0
# Armed counts as active: the run may be submitted at any moment.
HAS_STARTED = ~Q(state=Run.State.QUEUED) | Q(next_tick_at__isnull=False)
# Its campaign is not paused, and its block does not wait for an interim analysis of earlier blocks.
MAY_BEGIN = Q(state=Run.State.QUEUED, campaign__state=Campaign.State.RUNNING) & (
    Q(campaign__open_blocks=None) | Q(block__lt=F("campaign__open_blocks"))
)
ORDER = ("-campaign__priority", "campaign__started_at", "position")
_thread = threading.local()  # `deferred`: see first_wake_deferred
OUT_OF_SERVICE = (Host.State.QUARANTINED, Host.State.UNFIT)


def of_host(host: Host) -> RunQuerySet:
    """Return the runs and parts of runs on this host."""
    return Run.objects.filter(Q(host=host) | Q(pk__in=RunPart.objects.filter(host=host).values("run")))


def waiting(host: Host) -> RunQuerySet:
    """Its queued runs in the order in which they start: by priority, start of the campaign, and position."""
    return of_host(host).filter(MAY_BEGIN).order_by(*ORDER)


def next_runs(hosts: Collection[Host]) -> dict[int, Run]:
    """{host: the first of its `waiting` runs}, for any number of hosts. Three queries."""
    queued = Run.objects.filter(MAY_BEGIN)
    first = queued.filter(host__in=hosts).order_by("host_id", *ORDER).distinct("host_id").values_list("host_id", "pk")
    parts = RunPart.objects.filter(host__in=hosts, run__in=queued.order_by().values("pk")).distinct("host_id")
    needed = parts.order_by("host_id", *(_of_run(each) for each in ORDER)).values_list("host_id", "run_id")
    candidates: list[tuple[int, UUID]] = [*first, *needed]
    runs = Run.objects.select_related("campaign").in_bulk({run for _, run in candidates})
    found = dict[int, Run]()
    for host, run in sorted(candidates, key=lambda candidate: _place(runs[candidate[1]])):
        found.setdefault(host, runs[run])
    return found


def _of_run(column: str) -> str:
    return f"-run__{column[1:]}" if column.startswith("-") else f"run__{column}"


def _place(run: Run) -> tuple[int, datetime, int]:
    """Its place as in ORDER."""
    return -run.campaign.priority, run.campaign.started_at or run.campaign.created_at, run.position


def arm_host(host_id: int) -> bool:
    """Give the host's next queued run its first tick, unless a run of this host is armed or active. One that needs
    further hosts waits until these are free, and no run overtakes it. False if none was armed."""
    with everything(), transaction.atomic():
        host = Host.objects.select_for_update().get(pk=host_id)
        if is_taken([host_id]):
            return False
        now, following = timezone.now(), waiting(host).first()
        other = None if following else _elsewhere(host)
        run = following or other
        if run is None or hindrance(host, run, now):
            return False
        if not (_ours(run, host) if other else _has_others(run, host, now)):
            return False
        Run.objects.filter(pk=run.pk).update(next_tick_at=now)
        wake(run.pk)
        return True


def _elsewhere(host: Host) -> Run | None:
    """Return the first run of a block that has not started and waits for another host, which is busy or out of service.

    Only campaigns that distribute their runs over this host and others count."""
    ours = Q(campaign__host=host) | Q(campaign__further_hosts=host)
    spread = Run.objects.filter(ours, campaign__placement=Campaign.Placement.SPREAD).exclude(host=host)
    queued = spread.filter(MAY_BEGIN)
    begun = Run.objects.filter(campaign=OuterRef("campaign"), block=OuterRef("block")).filter(HAS_STARTED)
    busy = Run.objects.filter(host=OuterRef("host")).filter(HAS_STARTED).exclude(state=Run.State.ENDED)
    untouched = queued.filter(~Exists(begun), ~Q(host__state=Host.State.READY) | Exists(busy))
    return untouched.order_by("-campaign__priority", "campaign__started_at", "position").first()


def _ours(run: Run, host: Host) -> bool:
    """Return whether the run belongs to this host, or assign its whole block to it: compared runs stay on one host.

    False while another transaction has locked the host of its queue."""
    if run.host_id == host.pk:
        return True
    if not Host.objects.select_for_update(skip_locked=True).filter(pk=run.host_id):
        return False
    block = Run.objects.filter(campaign=run.campaign_id, block=run.block)
    if block.filter(HAS_STARTED).exists():
        return False
    return bool(block.update(host=host, facts=host.facts_history.order_by("-number").first()))


def hindrance(host: Host, run: Run, now: datetime) -> str:
    """The reason why this run must not begin on its host now; "" if it may."""
    return unsuitable(host) or hindered(host, run, reservations.in_force(host, now), now)


def unsuitable(host: Host) -> str:
    """Why no run begins on this host; "" if one may."""
    return f"{host} is {host_state(host.state)}: {host.state_reason}" if host.state in OUT_OF_SERVICE else ""


def hindered(host: Host, run: Run, reserved: Reservation | None, now: datetime) -> str:
    """The reason why this run must not begin on its host now, as `reserved` or its windows have it; "" if it may."""
    calendar = windows.read(host.windows, host.time_zone)
    if reserved:
        until = windows.local_time(reserved.until, calendar.zone, now)
        return f"reserved by {reserved.by} until {until}: {reserved.reason}"
    return closed(calendar, queries.run_seconds(run) if calendar.windows else 0.0, now)


def closed(calendar: windows.Calendar, seconds: float, now: datetime) -> str:
    """Why no window allows a run of this duration to begin now; "" if one does."""
    begins = calendar.begin(now, seconds)
    if begins <= now:
        return ""
    inside = calendar.open_until(now) is not None
    where = (
        "the rest of its maintenance window is too short for the next run"
        if inside
        else "outside its maintenance windows"
    )
    return f"{where}: the next one begins {windows.local_time(begins, calendar.zone, now)}"


def is_taken(hosts: Sequence[int]) -> bool:
    """Whether a run that is armed or active needs one of these hosts."""
    needing = Run.objects.filter(HAS_STARTED).exclude(state=Run.State.ENDED)
    parts = RunPart.objects.filter(host__in=hosts, run__in=needing)
    return needing.filter(host__in=hosts).exists() or parts.exists()


def _has_others(run: Run, host: Host, now: datetime) -> bool:
    """Return whether all further hosts of a run are free and locked by this transaction. A host that another
    transaction has locked is not waited for, to avoid deadlocks: the next beat tries again."""
    needed = {run.host_id, *run.parts.values_list("host_id", flat=True)} - {host.pk}
    if not needed:
        return True
    locked = Host.objects.select_for_update(skip_locked=True).filter(pk__in=needed)
    free = [other.pk for other in locked if not hindrance(other, run, now)]
    return len(free) == len(needed) and not is_taken(free)


def arm_idle_hosts() -> None:
    """Arm every host with waiting runs, after a lost message or a crash between two runs."""
    waits = Run.objects.filter(MAY_BEGIN, next_tick_at=None)
    hosts = set(waits.order_by().values_list("host_id", flat=True).distinct())
    spread = Campaign.objects.filter(state=Campaign.State.RUNNING, placement=Campaign.Placement.SPREAD)
    for first, further in spread.values_list("host_id", "further_hosts"):
        hosts |= {first, further}
    for host_id in sorted(hosts):
        arm_host(host_id)


def rearm(run: Run, seconds: float, **changes: Any) -> None:
    """Release the claim and schedule the next tick in `seconds`, with further changes in the same statement."""
    run.mine().update(next_tick_at=timezone.now() + timedelta(seconds=seconds), claimed_until=None, **changes)
    if seconds == 0:
        wake(run.pk)


def wake(run_id: UUID) -> None:
    """Wake a worker after the commit. Without a broker, the beat or `manage.py tick` finds the run."""
    transaction.on_commit(lambda: _wake(str(run_id)))


def _wake(run_id: str) -> None:
    deferred: list[str] | None = getattr(_thread, "deferred", None)
    if deferred == []:
        deferred.append(run_id)
    else:
        waking.send(TICK, run_id)


@contextmanager
def first_wake_deferred() -> Iterator[list[str]]:
    """Keep the first run that this thread wakes during the `with` block, so that the caller can tick it itself: a
    message would cost some milliseconds between two runs of a host. After an error, a worker is woken as usual."""
    deferred: list[str] = []
    _thread.deferred = deferred
    try:
        yield deferred
    except BaseException:
        for run_id in deferred:
            waking.send(TICK, run_id)
        raise
    finally:
        _thread.deferred = None


def wake_again(run_id: UUID) -> None:
    """Wake a worker for a due run that none has claimed: the message was lost, or waits behind others. At most once
    every AGAIN_S, so that the broker's queue does not fill with repeated messages."""
    try:
        is_recent = not cache.add(f"woken:{run_id}", True, AGAIN_S)
    except (RedisError, OSError) as error:
        log.warning("cache unavailable, call of run %s not recorded: %s", run_id, error)
        is_recent = False
    if not is_recent:
        waking.send(TICK, str(run_id))
