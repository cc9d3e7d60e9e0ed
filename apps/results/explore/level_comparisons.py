"""Levels on an axis of the explorer against a baseline, by the rules of a campaign's table. Only reads (SELECT)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import stats
from apps.campaigns.models import Campaign
from apps.results.answers.interim_analyses import adjusted, newest, unplanned
from apps.results.answers.observations import starts_of

MARGIN = 0.02  # has no effect, because only intervals are shown

Path = tuple[int, ...]


@dataclass(frozen=True)
class Comparing:
    """`unplanned`: why intervals must hold at any number of runs, or "". `starts`: as starts_of() has them."""

    unplanned: str
    starts: stats.Starts

    @classmethod
    def of(cls, campaign: Campaign) -> Comparing:
        return cls(unplanned(campaign, newest(campaign)), starts_of(campaign))

    def against(
        self, rows: Sequence[stats.Observation], labels: Sequence[str], base: str, metric: stats.Metric
    ) -> dict[str, stats.Comparison]:
        """Return level -> its comparison. `labels`: the combination of each row. {} if the levels combine runs of
        different starts of the server, so that their variation cannot be separated."""
        starts: stats.Starts | None = {}
        if self.starts:
            starts, rows = self._starts(rows, labels), _means_of_blocks(rows)
        if starts is None:
            return {}
        compared = stats.against_baseline(rows, base, metric, MARGIN, starts)
        return {comparison.b: adjusted(comparison, self.unplanned) for comparison in compared}

    def _starts(self, rows: Sequence[stats.Observation], labels: Sequence[str]) -> stats.Starts | None:
        """Return level -> its start, if each level has one. {} if all levels combine runs of the same starts, which
        then cancel; otherwise None."""
        counts: dict[str, Counter[tuple[int, Path]]] = {}
        for row, label in zip(rows, labels, strict=True):
            counts.setdefault(row.level, Counter())[row.block, tuple(self.starts.get(label, ()))] += 1
        paths = {level: {path for _, path in own} for level, own in counts.items()}
        if all(len(own) == 1 for own in paths.values()):
            return {level: own.pop() for level, own in paths.items()}
        first, *others = counts.values()
        return {} if all(own == first for own in others) else None


def _means_of_blocks(rows: Sequence[stats.Observation]) -> list[stats.Observation]:
    """Return the geometric mean of each level in each block, in the order of the rows."""
    cells: dict[tuple[str, int], list[stats.Observation]] = {}
    for row in rows:
        cells.setdefault((row.level, row.block), []).append(row)
    return [
        stats.Observation(level, block, math.exp(sum(math.log(row.value) for row in own) / len(own)), own[0].order)
        for (level, block), own in cells.items()
    ]
