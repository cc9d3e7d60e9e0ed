"""SELECT only: levels of one campaign whose transactions or runs fail more often than those they are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Count, Q

import stats
from apps.campaigns.models import Campaign
from apps.results.answers import interim_analyses
from apps.results.answers.comparison.differences import campaigns_in
from apps.results.answers.comparison.sides import Arm
from apps.results.answers.level_rows import FAILURES, Comparing, at_first, with_failed_runs, with_failures
from apps.results.answers.table import LevelRow, Point
from apps.results.models import Measurement


def failing(arms: Sequence[Arm], kind: Measurement, delta: float) -> list[str]:
    """Return a sentence for each side that fails more often than the first, or the first than another. [] if the sides
    are not levels of one campaign. Two queries."""
    campaigns = campaigns_in(arm.runs for arm in arms)
    if len(campaigns) > 1 or not kind.better or any(arm.kind != "level" for arm in arms):
        return []
    [campaign] = campaigns.values()
    unplanned = interim_analyses.RUNNING if interim_analyses.is_running(campaign) else ""
    rows, values = _rows(campaign, arms), _counts(arms, kind.step)
    metric = stats.Metric(kind.name, kind.unit, kind.better)  # type: ignore[arg-type]  # the model's own words

    def against(baseline: str) -> list[LevelRow]:
        comparing = Comparing(baseline, metric, delta, unplanned, identical_hosts=False)
        return with_failed_runs(with_failures(rows, comparing, values), comparing)

    first, *others = rows
    compared = [*against(first.label)[1:], *(against(other.label)[0] for other in others)]
    return list(dict.fromkeys(row.failures for row in compared if row.failures))


def _rows(campaign: Campaign, arms: Sequence[Arm]) -> list[LevelRow]:
    """Return a row for each side, in order, with the first outcomes of all its planned runs."""
    names = [factor["name"] for factor in campaign.factors]
    outcomes: dict[str, Counter[str]] = {}
    planned = campaign.runs.filter(retry_of=None).order_by()
    for cell, outcome, count in planned.values_list("cell", "outcome").annotate(count=Count("pk")):
        label = ", ".join(cell[name] for name in names if name in cell)
        outcomes.setdefault(label, Counter())[outcome] += count
    return [_row(arm, outcomes.get(arm.key.split(":", 2)[2], {})) for arm in arms]


def _row(arm: Arm, outcomes: Mapping[str, int]) -> LevelRow:
    failed, ended = at_first(outcomes)
    return LevelRow(
        label=arm.key.split(":", 2)[2],
        name=arm.title,
        points=[Point(run.pk, run.block, run.position, value) for run, value in arm.measured],
        planned=0,
        outcomes={},
        ended_at_first=ended,
        failed_at_first=failed,
    )


def _counts(arms: Sequence[Arm], step: str) -> dict[str, dict[UUID, float]]:
    """Return transactions that succeeded and failed: name -> run -> count."""
    of_sides = reduce(or_, (Q(run__in=arm.run_keys) for arm in arms))
    counts = Measurement.objects.filter(of_sides, step=step, name__in=("transactions", *FAILURES)).order_by()
    values: dict[str, dict[UUID, float]] = {}
    for run, name, value in counts.values_list("run_id", "name", "value"):
        values.setdefault(name, {})[run] = value
    return values
