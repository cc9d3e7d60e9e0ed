"""The campaigns of a schedule over time, changes of the host between them, and the newest campaign against earlier
ones. Only reads (SELECT)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from uuid import UUID

import numpy as np
from django.db.models import Count, Q

import stats
from apps.campaigns.design import steps
from apps.campaigns.models import Run, Schedule, Slot
from apps.hosts.facts import changes
from apps.hosts.models import Facts
from apps.results.models import Measurement
from apps.results.queries import labels_of
from common.errors import PlanError
from stats.across_campaigns.prediction import LEAST

MOST = 100  # newest campaigns
Values = Mapping[str, Sequence[float]]  # level -> values of its runs


@dataclass(frozen=True)
class TrendPoint:
    """A level in one campaign: the geometric mean of its runs, with a 95 % interval from two runs on."""

    campaign: UUID
    title: str
    at: datetime
    level: str
    runs: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class HostChange:
    """A change of the host before the campaign of this time."""

    at: datetime
    summary: str


@dataclass(frozen=True)
class Trend:
    """`verdicts`: the levels of the newest campaign against the `earlier` ones; empty for a figure without a better
    direction."""

    metric: str
    unit: str
    points: list[TrendPoint]
    host_changes: list[HostChange]
    newest: Slot | None
    earlier: int
    verdicts: list[tuple[str, stats.Predicted]]
    design: Sequence[str] = ()

    @property
    def levels(self) -> list[str]:
        """The levels in the order of the design."""
        measured = {point.level for point in self.points}
        return [label for label in self.design if label in measured]

    @property
    def quantity(self) -> str:
        return self.metric if self.unit in ("", self.metric) else f"{self.metric} ({self.unit})"

    @property
    def missing(self) -> int:
        """How many more campaigns the comparison needs."""
        return max(0, LEAST - self.earlier) if self.newest else LEAST + 1

    @property
    def usual(self) -> list[str]:
        """The sentences on levels without a regression."""
        return [each.sentence(level, self.metric) for level, each in self.verdicts if not each.is_worse]

    @property
    def regression(self) -> str:
        """The sentences on what is worse; "" without a regression."""
        return " ".join(each.sentence(level, self.metric) for level, each in self.verdicts if each.is_worse)


def trend(schedule: Schedule, until: datetime | None = None) -> Trend:
    """Return the trend of its campaigns that have ended and were read, of slots up to `until`. Four queries."""
    try:
        metric = steps.metric(schedule.campaign.steps, schedule.campaign.compared)
    except PlanError:  # its campaigns do not compare a figure
        return Trend(schedule.campaign.metric, "", [], [], None, 0, [])
    slots = _slots(schedule, until)
    values, facts = _values(schedule, slots, metric)
    known = [slot for slot in slots if values.get(slot.campaign_id or UUID(int=0))]
    cells = [(slot, values[slot.campaign_id]) for slot in known if slot.campaign_id]
    points = [_point(slot, level, measured) for slot, levels in cells for level, measured in levels.items()]
    verdicts = _verdicts([levels for _, levels in cells], metric, schedule.campaign.delta)
    return Trend(
        schedule.campaign.compared,
        metric.unit,
        points,
        _host_changes(known, facts),
        known[-1] if known else None,
        max(0, len(known) - 1),
        verdicts,
        labels_of(schedule.campaign, []),
    )


def _slots(schedule: Schedule, until: datetime | None) -> Sequence[Slot]:
    """Return the slots, oldest first, whose campaigns have no run left to read."""
    ended = schedule.slots.filter(campaign__ended_at__isnull=False)
    ended = ended.filter(at__lte=until) if until else ended
    unread = Count("campaign__runs", filter=Q(campaign__runs__outcome=Run.Outcome.OK, campaign__runs__ingested_at=None))
    rows = ended.annotate(unread=unread).filter(unread=0).select_related("campaign").order_by("-at")[:MOST]
    return list(rows)[::-1]


def _values(
    schedule: Schedule, slots: Sequence[Slot], metric: steps.Metric
) -> tuple[dict[UUID, dict[str, list[float]]], dict[UUID, int]]:
    """Return (campaign -> level -> values, campaign -> the facts of its first run)."""
    rows = Run.objects.filter(campaign__slot__in=slots, outcome=Run.Outcome.OK).order_by("campaign", "position")
    measured = Measurement.objects.filter(run__campaign__slot__in=slots, step=metric.step, name=metric.name)
    figures = dict(measured.order_by().values_list("run", "value"))
    values: dict[UUID, dict[str, list[float]]] = {}
    facts: dict[UUID, int] = {}
    for run, campaign, cell, facts_id in rows.values_list("pk", "campaign", "cell", "facts"):
        if facts_id:
            facts.setdefault(campaign, facts_id)
        value = figures.get(run)
        if value is not None and math.isfinite(value) and value > 0:
            label = Run(campaign=schedule.campaign, cell=cell).label
            values.setdefault(campaign, {}).setdefault(label, []).append(value)
    return values, facts


def _point(slot: Slot, level: str, values: Sequence[float]) -> TrendPoint:
    from scipy import stats as distributions

    logs, count = np.log(values), len(values)
    mean, low, high = float(logs.mean()), None, None
    if count > 1:
        half = float(distributions.t.ppf(0.975, count - 1)) * float(logs.std(ddof=1)) / math.sqrt(count)
        low, high = math.exp(mean - half), math.exp(mean + half)
    campaign = slot.campaign
    title = campaign.name if campaign else ""
    return TrendPoint(slot.campaign_id or UUID(int=0), title, slot.at, level, count, math.exp(mean), low, high)


def _verdicts(campaigns: Sequence[Values], metric: steps.Metric, delta: float) -> list[tuple[str, stats.Predicted]]:
    if not campaigns or metric.better not in ("higher", "lower"):
        return []
    newest, verdicts = campaigns[-1], []
    for level, values in newest.items():
        earlier = [campaign[level] for campaign in campaigns[:-1] if level in campaign]
        verdict = stats.against_history(earlier, values, better=metric.better, delta=delta, of=len(newest))  # type: ignore[arg-type]
        verdicts += [(level, verdict)] if verdict else []
    return verdicts


def _host_changes(slots: Sequence[Slot], facts: Mapping[UUID, int]) -> list[HostChange]:
    """Return what matters between a campaign and the next one: PostgreSQL, the kernel, CPUs, memory, settings."""
    with_facts = [(slot, facts[slot.campaign_id]) for slot in slots if slot.campaign_id and slot.campaign_id in facts]
    pairs = [(slot, old, new) for (_, old), (slot, new) in pairwise(with_facts) if old != new]
    keys = {key for _, *both in pairs for key in both}
    data = dict(Facts.objects.filter(pk__in=keys).values_list("pk", "data")) if keys else {}
    differing = [(slot, changes.weighty(data[old], data[new])) for slot, old, new in pairs]
    return [HostChange(slot.at, changes.listed(each)) for slot, each in differing if each]
