"""SELECT only: what identical runs on a host differ by from campaign to campaign, which are days."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg

import stats
from apps.campaigns.models import Campaign, Run
from apps.results.answers.comparison.differences import ComparedRun, campaigns_in
from apps.results.models import Measurement

NEWEST = 1000  # runs of the hosts that are compared, the same number of each


class ComparedSide(Protocol):
    """Runs that are compared with others, each with its figure."""

    @property
    def key(self) -> str: ...
    @property
    def measured(self) -> Sequence[tuple[ComparedRun, float]]: ...


@dataclass(frozen=True)
class Days:
    """Sides of several campaigns; `between`: the variation between these, None without a history."""

    between: stats.Between | None


def campaigns_of(*sides: ComparedSide) -> set[UUID]:
    return set(campaigns_in((run for run, _ in side.measured) for side in sides))


def days_of(sides: Sequence[ComparedSide], step: str, name: str) -> Days | None:
    """None where all sides are of one campaign. What a side ran in several campaigns counts as the history does."""
    campaigns = campaigns_of(*sides)
    if len(campaigns) == 1:
        return None
    hosts = {run.host_id for side in sides for run, _ in side.measured}
    own: dict[tuple[str, int, str, int], tuple[ComparedRun, list[float]]] = {}
    for side in sides:
        for run, value in side.measured:
            if value > 0:
                same = (side.key, run.host_id, run.digest, id(run.campaign))
                own.setdefault(same, (run, []))[1].append(value)
    cells = [
        stats.Cell(f"{side} {host} {digest}", f"{host} {run.campaign_id}", values)
        for (side, host, digest, _), (run, values) in own.items()
    ]
    return Days(stats.between_campaigns([*cells, *figure_history(hosts, campaigns, step, name)]))


def figure_history(hosts: Collection[int], but: Collection[UUID], step: str, name: str) -> list[stats.Cell]:
    """The figure in runs of one spec on one host, campaign by campaign, without the campaigns in `but`. One query for
    each host, because an index has the newest runs of a host. The database groups the values: to read a row for each
    run takes several times as long."""
    ended = Run.objects.filter(outcome=Run.Outcome.OK, campaign__kind=Campaign.Kind.COMPARISON)
    others = ended.exclude(campaign__in=but).order_by("-ended_at")
    cells = []
    for host in hosts:
        newest = others.filter(host=host)[: NEWEST // len(hosts)]
        rows = Measurement.objects.filter(run__in=newest.values("pk"), step=step, name=name, value__gt=0)
        rows = rows.order_by("run__digest", "run__campaign_id")
        grouped = rows.values_list("run__digest", "run__campaign_id").annotate(values=ArrayAgg("value", order_by="pk"))
        for digest, campaign, values in grouped:
            # What a campaign's day does, it does to one host.
            finite = [value for value in values if math.isfinite(value)]
            cells.append(stats.Cell(f"{host} {digest}", f"{host} {campaign}", finite))
    return [cell for cell in cells if cell.values]
