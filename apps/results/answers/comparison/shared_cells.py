"""SELECT only: every level that all sides have run, each compared, and what only some of them have run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from django.contrib.postgres.aggregates import ArrayAgg

import stats
from apps.campaigns.models import Campaign, Workload
from apps.results.answers.comparison.compare import Compared, adjusted
from apps.results.answers.comparison.sides import (
    LETTERS,
    Arm,
    What,
    Wide,
    common,
    describe_level,
    name_of,
    workloads_of,
)
from stats.model import POINTS_ONLY_BELOW

PAGE = 25
AT_ONCE = 200  # levels of a CSV
NAMED = 8
Values = dict[UUID, list[float]]  # campaign -> the figure of its runs


@dataclass(frozen=True)
class ComparedPair:
    """A further side against the first at one level; `comparison` is None where the figure has no better direction, is
    not above 0, or is lacking."""

    key: str
    title: str
    letter: str
    n: tuple[int, int]
    means: tuple[float | None, float | None]
    comparison: stats.Comparison | None

    @property
    def sentence(self) -> str:
        return self.comparison.sentence("A", self.letter) if self.comparison else ""


@dataclass(frozen=True)
class Alone:
    """Levels that a side has run and not all others; `named` are the first of them."""

    letter: str
    levels: list[str]

    @property
    def named(self) -> str:
        more = len(self.levels) - NAMED
        return "; ".join(self.levels[:NAMED]) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Shared:
    """`pairs` of the levels from place `start` on; `total` levels are shared, and `tested` comparisons of them hold
    together, those of other pages included."""

    pairs: list[ComparedPair]
    total: int
    start: int
    tested: int
    alone: list[Alone]

    @property
    def last(self) -> int:
        """The place after the last level shown."""
        return min(self.start + PAGE, self.total)

    @property
    def before(self) -> int | None:
        return max(0, self.start - PAGE) if self.start else None

    @property
    def after(self) -> int | None:
        return self.last if self.last < self.total else None


def shared(compared: Compared, start: int = 0) -> Shared | None:
    """A page of them; None where the sides are not two or more of several levels. Two queries for each side."""
    if not _are_wide(compared):
        return None
    whats = list(common(compared.wide))
    start = start if 0 <= start < len(whats) else 0
    alone = list(_alone(compared, set(whats)))
    tested = _tested(compared, whats)
    return Shared(_pairs(compared, whats[start : start + PAGE], tested), len(whats), start, tested, alone)


def _are_wide(compared: Compared) -> bool:
    return len(compared.wide) == len(compared.arms)


def _tested(compared: Compared, whats: Sequence[What]) -> int:
    """How many comparisons there are of levels that have runs enough."""
    first, others = compared.wide[0].counts, [side.counts for side in compared.wide[1:]]
    return sum(min(first[what], other[what]) >= POINTS_ONLY_BELOW for what in whats for other in others)


def _alone(compared: Compared, whats: set[What]) -> Iterator[Alone]:
    for letter, side in zip(LETTERS, compared.wide, strict=False):
        levels = sorted(describe_level(what, _first(compared)) for what in side.counts if what not in whats)
        if levels:
            yield Alone(letter, levels)


def _first(compared: Compared) -> Campaign:
    return compared.arms[0].runs[0].campaign


def _pairs(compared: Compared, whats: Sequence[What], tested: int) -> list[ComparedPair]:
    # The values of the level that is compared above are known.
    others = [what for what in whats if name_of(what) != compared.what]
    values = [
        {what: _by_campaign(arm) for what in whats if what not in others} | _values(side, others, compared.figure)
        for arm, side in zip(compared.arms, compared.wide, strict=True)
    ]
    names = _workloads(whats)
    return [
        _pair(
            compared,
            f"{names.get(what[0], '')}{describe_level(what, _first(compared))}",
            what,
            values[0].get(what, {}),
            other.get(what, {}),
            letter,
            tested,
        )
        for what in whats
        for letter, other in zip(LETTERS[1:], values[1:], strict=False)
    ]


def _by_campaign(arm: Arm) -> Values:
    values: Values = {}
    for run, value in arm.measured:
        values.setdefault(run.campaign_id, []).append(value)
    return values


def _values(side: Wide, whats: Sequence[What], figure: str) -> dict[What, Values]:
    """The figure of every run of these levels."""
    if not whats:
        return {}
    step, _, name = figure.partition(".")
    cells = [json.loads(levels) for _, levels in whats]
    runs = side.arm.chosen.filter(cell__in=cells, measurements__step=step, measurements__name=name)
    of_level = (
        runs.order_by("campaign_id")
        .values_list("campaign_id", "cell")
        .annotate(values=ArrayAgg("measurements__value", order_by="pk"))
    )
    rows = list(of_level)
    workload_of = workloads_of(campaign for campaign, *_ in rows)
    by_level: dict[What, Values] = {}
    for campaign, cell, values in rows:
        if finite := [value for value in values if math.isfinite(value)]:
            by_level.setdefault((workload_of[campaign], json.dumps(cell, sort_keys=True)), {})[campaign] = finite
    return by_level


def _workloads(whats: Sequence[What]) -> dict[int, str]:
    """What to put before the levels where they are of several workloads."""
    ids = {workload for workload, _ in whats}
    return {row.pk: f"{row}: " for row in Workload.objects.filter(pk__in=ids)} if len(ids) > 1 else {}


def _pair(
    compared: Compared, level_name: str, what: What, first: Values, other: Values, letter: str, tested: int
) -> ComparedPair:
    a, b = ([value for values in side.values() for value in values] for side in (first, other))
    comparison = None
    if a and b and compared.better and min(*a, *b) > 0:
        metric = stats.Metric(compared.figure.partition(".")[2], compared.unit, compared.better)  # type: ignore[arg-type]
        names = ("A", letter)
        if compared.days:
            comparison = stats.compare_campaigns(
                a,
                b,
                compared.days.between,
                metric=metric,
                delta=compared.delta,
                names=names,
                campaigns=(len(first), len(other)),
                of=tested,
            )
        else:
            comparison = stats.compare(a, b, metric=metric, delta=compared.delta, blocked=False, names=names, of=tested)
        comparison = adjusted(comparison, compared.unplanned_analysis, compared.days)
    return ComparedPair(name_of(what), level_name, letter, (len(a), len(b)), (_mean(a), _mean(b)), comparison)


def _mean(values: Sequence[float]) -> float | None:
    """Geometric, as all means of ratios are; a plain one where a value has no logarithm."""
    if not values:
        return None
    return math.exp(float(np.mean(np.log(values)))) if min(values) > 0 else float(np.mean(values))


HEAD = ("level", "sides", "runs of A", "runs of the other item", "mean of A", "mean of the other item")
HEAD_COMPARED = ("ratio (%)", "low (%)", "high (%)", "p", "verdict", "sentence")


def lines(compared: Compared) -> Iterator[list[Any]]:
    """For a CSV: every pair, some levels at a time, and then what has no counterpart."""
    if not _are_wide(compared):
        return
    whats = list(common(compared.wide))
    tested = _tested(compared, whats)
    for at in range(0, len(whats), AT_ONCE):
        for pair in _pairs(compared, whats[at : at + AT_ONCE], tested):
            yield [pair.title, f"{pair.letter} against A", *pair.n, *pair.means, *_csv_cells(pair)]
    for alone in _alone(compared, set(whats)):
        yield from ([level, f"{alone.letter} only"] for level in alone.levels)


def _csv_cells(pair: ComparedPair) -> list[Any]:
    one = pair.comparison
    if one is None:
        return []
    return [one.ratio_percent, *(one.interval or ("", "")), one.p, one.verdict, pair.sentence]
