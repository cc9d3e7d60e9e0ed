"""The progress of a campaign, estimates of durations, and changes of its host between runs. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Any
from uuid import UUID

from django.db.models import (
    Aggregate,
    Count,
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    Window,
)
from django.db.models.functions import Extract, Lag, Now
from django.utils import timezone

from agents.wire.protocol import BOOT
from apps.campaigns.design import plan
from apps.campaigns.models import Campaign, Run, RunEvent, RunPart, RunQuerySet
from apps.hosts.facts import changes
from apps.hosts.models import Facts, Host

ENDED = Q(state=Run.State.ENDED)
MOST_EVENT_BYTES = 8 << 20  # of a response; a host may send 64 MiB of events
TIMES = ("created_at", "started_at", "ended_at")
NOT_OK = (Run.Outcome.FAILED, Run.Outcome.INTERRUPTED, Run.Outcome.NOT_IN_EFFECT)
# A retry replaces its run, whatever its outcome. Only retries of failed runs are looked up; a join would look up all.
FAILED = Q(outcome__in=NOT_OK) & Q(~Exists(Run.objects.filter(retry_of=OuterRef("pk"))))


@dataclass(frozen=True)
class Progress:
    """Runs of a campaign. `done`: ended; `failed`: ended, and neither ok, cancelled nor retried; `read`: parsed into
    results.

    `eta_s`: estimated seconds left; None before the start."""

    done: int
    total: int
    running: int
    failed: int
    read: int
    eta_s: float | None


NO_RUNS = Progress(done=0, total=0, running=0, failed=0, read=0, eta_s=None)


def listed(*further: str) -> QuerySet[Campaign]:
    """Return campaigns for lists: without their designs, but with `further` fields."""
    names = ("host__name", "created_by__username")
    shown = ("kind", "name", "question", "recipe", "state", "metric", "repetitions", "archived_at", *TIMES)
    return Campaign.objects.select_related("host", "created_by").only(*names, *shown, *further)


def runs_listed(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return runs for lists: without their specs and manifests."""
    place = ("campaign", "host__name", "position", "block", "cell", "retry_of")
    became = ("state", "outcome", "error", "proof", "started_at", "ended_at", "ingested_at", "cancel_requested_at")
    agent = ("agent_state", "agent_state_at", "epoch", "step", "last_seq")
    return runs.select_related("host").only(*place, *became, *agent)


def of_team(team: int) -> Q:
    """Return the condition for campaigns with a host of the team, including further hosts."""
    further = Campaign.further_hosts.through.objects.filter(host__team=team)
    return Q(host__team=team) | Q(pk__in=further.values("campaign"))


WALL_S = Extract(ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField()), "epoch")
SO_FAR_S = Extract(ExpressionWrapper(Now() - F("started_at"), output_field=DurationField()), "epoch")
# Runs of a group share two restarts, so the time of one run does not show how long a restart takes.
SHARE_BOOTS = Q(campaign__order=Campaign.Order.FEWEST_RESTARTS, spec__settings__has_key=BOOT)
ACTIVE = Q(state__in=[Run.State.SUBMITTING, Run.State.RUNNING])


class Median(Aggregate):
    function = "PERCENTILE_CONT"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


def restart_seconds(host: Host | int) -> float | None:
    """Return the median duration of recent restarts of the host, as measured by runs; None without any."""
    ended = Run.objects.filter(host=host, manifest__timings__has_key="REBOOTING").exclude(SHARE_BOOTS)
    took = ended.order_by("-ended_at").values_list("manifest__timings__REBOOTING", "spec")[:20]
    each = [seconds / max(1, plan.restarts(spec)) for seconds, spec in took]
    return median(each) if each else None


# shape of a run -> seconds in addition to those of its steps
Overheads = dict[tuple[str, ...], float]
FEWEST, NEWEST = 3, 60


@dataclass(frozen=True)
class Estimates:
    """Estimated durations of runs on a host: from its earlier runs of the same shape, else from the plan."""

    overheads: Overheads
    restart_s: float
    restart_is_measured: bool

    def knows(self, spec: Mapping[str, Any]) -> bool:
        return plan.shape(spec) in self.overheads

    def seconds(self, spec: Mapping[str, Any]) -> float:
        overhead_s = self.overheads.get(plan.shape(spec), plan.OVERHEAD_S)
        return max(0.0, plan.seconds(spec, overhead_s, self.restart_s))


def estimates(host: Host | int) -> Estimates:
    """Two queries."""
    measured_s = restart_seconds(host)
    restart_s = plan.REBOOT_S if measured_s is None else measured_s
    return Estimates(overheads(host, restart_s), restart_s, measured_s is not None)


def overheads(host: Host | int, restart_s: float) -> Overheads:
    """Return the overhead of each shape that ran at least FEWEST times on the host: the median of total seconds
    minus planned seconds of steps."""
    ok = Run.objects.filter(host=host, outcome=Run.Outcome.OK, started_at__isnull=False).exclude(SHARE_BOOTS)
    ended = ok.order_by("-ended_at")
    took: dict[tuple[str, ...], list[float]] = {}
    for spec, wall_s in ended.annotate(wall_s=WALL_S).values_list("spec", "wall_s")[:NEWEST]:
        over_s = float(wall_s) - plan.seconds(spec, 0.0, restart_s)
        took.setdefault(plan.shape(spec), []).append(over_s)
    return {shape: median(seconds) for shape, seconds in took.items() if len(seconds) >= FEWEST}


def median_s(runs: RunQuerySet) -> float | None:
    """Return the median duration of the runs that were ok; None without any."""
    took: float | None = runs.filter(outcome=Run.Outcome.OK).order_by().aggregate(whole=Median(WALL_S))["whole"]
    return took


def run_seconds(run: Run) -> float:
    """Return the estimated duration of a run: the median of the same combination on this host, else from the host's
    other runs."""
    alike = Run.objects.filter(campaign=run.campaign_id, host=run.host_id, digest=run.digest)
    return median_s(alike) or estimates(run.host).seconds(run.spec)


def taken_s(campaign: Campaign) -> float:
    """Return the total seconds of all its runs that have ended, from start to end."""
    ended = campaign.runs.filter(started_at__isnull=False, ended_at__isnull=False)
    return float(ended.aggregate(whole=Sum(WALL_S))["whole"] or 0)


def progress(campaign: Campaign) -> Progress:
    """Return the progress of one campaign; see `progresses`."""
    return progresses([campaign])[campaign.pk]


def progresses(campaigns: Sequence[Campaign]) -> dict[UUID, Progress]:
    """Return the progress of each: one query; more while no run has ended, for the same estimate as before the start.

    The time that active runs have taken is subtracted, at most the estimate of a run for each."""
    runs = Run.objects.filter(campaign__in=campaigns).order_by().values("campaign")
    rows: Iterable[Any] = runs.annotate(
        total=Count("pk"),
        done=Count("pk", filter=ENDED),
        running=Count("pk", filter=ACTIVE),
        failed=Count("pk", filter=FAILED),
        read=Count("ingested_at"),
        hosts=Count("host", distinct=True, filter=~ENDED),
        wall_s=Median(WALL_S, filter=ENDED & Q(started_at__isnull=False)),
        so_far_s=Sum(SO_FAR_S, filter=ACTIVE, default=0.0, output_field=FloatField()),
    )
    counts = {row.pop("campaign"): row for row in rows}
    return {each.pk: _progress(each, counts[each.pk]) if each.pk in counts else NO_RUNS for each in campaigns}


def _progress(campaign: Campaign, counts: dict[str, Any]) -> Progress:
    so_far_s = counts.pop("so_far_s")
    wall_s, left = counts.pop("wall_s"), counts["total"] - counts["done"]
    at_once = max(1, counts.pop("hosts"))
    if not left:
        eta_s = 0.0
    else:
        whole = _planned_seconds(campaign) if wall_s is None else left * wall_s / at_once
        eta_s = whole - min(so_far_s / at_once, whole * counts["running"] / left)
    return Progress(**counts, eta_s=eta_s)


def with_run_counts(campaigns: Iterable[Campaign]) -> list[Campaign]:
    """Return the campaigns with their number of runs as `total`, `ended` and `failed`; one query."""
    listed = list(campaigns)
    rows = Run.objects.filter(campaign__in=listed).order_by().values("campaign")
    rows = rows.annotate(total=Count("pk"), done=Count("pk", filter=ENDED), failed=Count("pk", filter=FAILED))
    counts = {row["campaign"]: (row["total"], row["done"], row["failed"]) for row in rows}
    for campaign in listed:
        campaign.total, campaign.ended, campaign.failed = counts.get(campaign.pk, (0, 0, 0))  # type: ignore[attr-defined]
    return listed


def _planned_seconds(campaign: Campaign) -> float:
    """Return the estimated seconds of the runs that have not ended, on the slowest host. Equal specs are estimated
    once."""
    open_runs = campaign.runs.exclude(state=Run.State.ENDED).order_by()
    rows = list(open_runs.values("host", "spec").annotate(count=Count("pk")).values_list("host", "spec", "count"))
    learned = {host: estimates(host) for host in {host for host, *_ in rows}}
    totals = dict.fromkeys(learned, 0.0)
    for host, spec, count in rows:
        totals[host] += count * learned[host].seconds(spec)
    for host in _sharing_boots(campaign):
        totals[host] -= 2 * learned[host].restart_s
    return max(totals.values(), default=0.0)


def _sharing_boots(campaign: Campaign) -> Iterator[int]:
    """Yield the host of each run that has not ended and leaves its boot to the next run."""
    if campaign.order == Campaign.Order.FEWEST_RESTARTS:
        booting = campaign.runs.exclude(state=Run.State.ENDED).filter(spec__settings__has_key=BOOT)
        for one, following in pairwise(booting.order_by("host", "position").only("host", "block", "spec")):
            if one.host_id == following.host_id and plan.leaves_boot(campaign.order, one, following):
                yield one.host_id


@dataclass(frozen=True)
class Break:
    """Two consecutive runs on a host between which it changed in a way that matters."""

    before: UUID
    before_position: int
    after: UUID
    after_position: int
    changes: list[changes.FactChange]

    @property
    def sentence(self) -> str:
        before, after = f"run {self.before_position + 1}", f"run {self.after_position + 1}"
        return changes.change_warning(before, after, self.changes)

    @property
    def listed(self) -> str:
        """The changes, without the two runs."""
        return changes.listed(self.changes)


def breaks_sentence(all_breaks: Sequence[Break]) -> str:
    """Return one warning about all of them; "" if there are none."""
    if len(all_breaks) < 2:
        return all_breaks[0].sentence if all_breaks else ""
    paths = sorted({change.path for host_break in all_breaks for change in host_break.changes})
    more = f" and {len(paths) - changes.SHOWN} more" if len(paths) > changes.SHOWN else ""
    named = ", ".join(paths[: changes.SHOWN]) + more
    return f"The host changed {len(all_breaks)} times between runs: {named}. {changes.NOT_COMPARABLE}"


def breaks(campaign: UUID) -> list[Break]:
    """Return the breaks in the order of the runs. One query if each host has the same facts in all its runs, else two;
    a third one if the facts of a run differ from those of the run before it on its host."""
    # The index run_content has both columns.
    known = Run.objects.filter(campaign=campaign, facts__isnull=False).order_by()
    facts_of_hosts = list(known.values_list("host", "facts").distinct())
    if len(facts_of_hosts) == len({host for host, _ in facts_of_hosts}):
        return []
    started = Run.objects.filter(campaign=campaign, started_at__isnull=False, facts__isnull=False)
    order = [F("started_at"), F("position")]
    with_earlier = started.annotate(
        earlier=Window(Lag("pk"), partition_by="host_id", order_by=order),
        earlier_position=Window(Lag("position"), partition_by="host_id", order_by=order),
        earlier_facts=Window(Lag("facts_id"), partition_by="host_id", order_by=order),
    )
    moved = with_earlier.filter(earlier_facts__isnull=False).exclude(facts_id=F("earlier_facts")).order_by(*order)
    names = ("earlier", "earlier_position", "pk", "position", "earlier_facts", "facts_id")
    pairs = list(moved.values_list(*names))
    keys = {key for *_, old, new in pairs for key in (old, new)}
    data = dict(Facts.objects.filter(pk__in=keys).values_list("pk", "data")) if keys else {}
    candidates = [Break(a, m, b, n, changes.weighty(data[old], data[new])) for a, m, b, n, old, new in pairs]
    return [candidate for candidate in candidates if candidate.changes]


def breaks_at(run: Run) -> list[Break]:
    """Return the breaks directly before and after a run."""
    return [host_break for host_break in breaks(run.campaign_id) if run.pk in (host_break.before, host_break.after)]


def first_events(events: QuerySet[RunEvent], most: int) -> list[RunEvent]:
    """Return the first events of a run: at most `most`, with at most MOST_EVENT_BYTES of data, but at least one."""
    first, size = list[RunEvent](), 0
    for event in events.order_by("seq")[:most].iterator(chunk_size=100):
        size += len(str(event.data))
        if first and size > MOST_EVENT_BYTES:
            break
        first.append(event)
    return first


def following_events(job: Run | RunPart, after: int, limit: int) -> dict[str, Any]:
    """Return {"results", "next_after", "ended", "dropped"}: the first events after number `after`, whether no more
    follow, and whether that is because they were dropped."""
    events = first_events(job.event_log.filter(seq__gt=after), limit)
    last = events[-1].seq if events else after
    ended = job.state == Run.State.ENDED and len(events) < limit and not job.event_log.filter(seq__gt=last).exists()
    dropped = ended and not events and are_details_dropped(job)
    return {"results": events, "next_after": last, "ended": ended, "dropped": dropped}


def are_details_dropped(job: Run | RunPart) -> bool:
    """Return whether event log and series of an ended job were dropped: see apps/results/store/details.py. A run that
    started today has them."""
    is_old = job.start is not None and job.start < timezone.now() - timedelta(days=1)
    return job.state == Run.State.ENDED and is_old and job.last_seq > 0 and not job.event_log.exists()
