"""SELECT only: what identical runs on a host differ by from campaign to campaign, which are days."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import stats
from apps.campaigns.models import Campaign, Run
from apps.results.answers.comparison.differences import Ran
from apps.results.models import Measurement

NEWEST = 1000  # runs of the hosts that are compared, the same number of each


class Side(Protocol):
    """Runs that are compared with others, and their figure."""

    @property
    def key(self) -> str: ...
    @property
    def runs(self) -> Sequence[Ran]: ...
    @property
    def values(self) -> Mapping[UUID, float]: ...


@dataclass(frozen=True)
class Days:
    """Sides of several campaigns; `between`: the variation between these, None without a history."""

    between: stats.Between | None


def campaigns_of(*sides: Side) -> set[UUID]:
    return {run.campaign.pk for side in sides for run in side.runs if run.pk in side.values}


def days_of(sides: Sequence[Side], step: str, name: str) -> Days | None:
    """None where all sides are of one campaign. What a side ran in several campaigns counts as the history does."""
    campaigns = campaigns_of(*sides)
    if len(campaigns) == 1:
        return None
    hosts = {run.host.pk for side in sides for run in side.runs}
    own: dict[tuple[str, str], list[float]] = {}
    for side in sides:
        for run in side.runs:
            if side.values.get(run.pk, 0) > 0:
                key = (f"{side.key} {run.host.pk} {run.digest}", f"{run.host.pk} {run.campaign.pk}")
                own.setdefault(key, []).append(side.values[run.pk])
    cells = [stats.Cell(group, campaign, values) for (group, campaign), values in own.items()]
    return Days(stats.between_campaigns([*cells, *history(hosts, campaigns, step, name)]))


def history(hosts: Collection[int], but: Collection[UUID], step: str, name: str) -> list[stats.Cell]:
    """The figure in runs of one spec on one host, campaign by campaign, without the campaigns in `but`. One query for
    each host, whose index has its newest runs."""
    ended = Run.objects.filter(outcome=Run.Outcome.OK, campaign__kind=Campaign.Kind.COMPARISON)
    others = ended.exclude(campaign__in=but).order_by("-ended_at")
    cells: dict[tuple[str, str], list[float]] = {}
    for host in hosts:
        newest = others.filter(host=host)[: NEWEST // len(hosts)]
        rows = Measurement.objects.filter(run__in=newest.values("pk"), step=step, name=name).order_by("pk")
        for digest, campaign, value in rows.values_list("run__digest", "run__campaign", "value"):
            if math.isfinite(value) and value > 0:
                # What a campaign's day does, it does to one host.
                cells.setdefault((f"{host} {digest}", f"{host} {campaign}"), []).append(value)
    return [stats.Cell(group, campaign, values) for (group, campaign), values in cells.items()]
