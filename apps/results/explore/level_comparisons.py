"""Levels on an axis of the explorer against a baseline, by the rules of a campaign's table. Only reads (SELECT)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import stats
from apps.campaigns.models import Campaign
from apps.results.answers.interim_analyses import adjusted, newest, unplanned
from apps.results.answers.observations import MeasuredRun, joint_observations, observations, starts_of

MARGIN = 0.02  # has no effect, because only intervals are shown

Path = tuple[int, ...]


@dataclass(frozen=True)
class ChartComparing:
    """`unplanned`: why intervals must hold at any number of runs, or "". `starts`: as starts_of() has them.
    `identical_hosts`: whether each run of several hosts counts, not only their means."""

    unplanned: str
    starts: stats.Starts
    identical_hosts: bool

    @classmethod
    def of(cls, campaign: Campaign) -> ChartComparing:
        identical = campaign.placement == Campaign.Placement.SPREAD
        return cls(unplanned(campaign, newest(campaign)), starts_of(campaign), identical)

    def against(
        self, runs: Sequence[MeasuredRun], labels: Sequence[str], base: str, metric: stats.Metric
    ) -> dict[str, stats.Comparison]:
        """Return level -> its comparison. `labels`: the combination of each run. {} if the levels combine runs of
        different starts of the server, so that their variation cannot be separated, or if no host has the baseline and
        all levels in one block."""
        rows, starts = joint_observations(runs, identical=self.identical_hosts), self._starts_of_levels(runs, labels)
        if starts is None or not any(row.level == base for row in rows):
            return {}
        rows = _means_of_blocks(rows) if self.starts else rows
        compared = stats.against_baseline(rows, base, metric, MARGIN, starts)
        return {comparison.b: adjusted(comparison, self.unplanned) for comparison in compared}

    def _starts_of_levels(self, runs: Sequence[MeasuredRun], labels: Sequence[str]) -> stats.Starts | None:
        """Return level -> its start, if each level has one. {} if levels share no starts, or if all combine runs of the
        same starts, which then cancel; otherwise None."""
        if not self.starts:
            return {}
        counts: dict[str, Counter[tuple[int, Path]]] = {}
        for row, label in zip(observations(runs), labels, strict=True):
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
        replace(own[0], value=math.exp(sum(math.log(row.value) for row in own) / len(own))) for own in cells.values()
    ]
