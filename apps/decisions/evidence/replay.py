"""Evaluate the frozen evidence of a decision again with the current statistics. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import stats
from apps.results.answers import interim_analyses
from apps.results.answers.observations import MeasuredRun, joint_observations
from common import verdicts
from common.verdicts import BETTER_FAILING

# Percentages computed from the same numbers by another release of a library differ by less.
TOLERANCE = 0.005


@dataclass(frozen=True)
class ReplayedLevel:
    """A level against the baseline, frozen and computed now; None if there is no such figure."""

    label: str
    verdict: str
    again: str
    relative_percent: float | None
    again_percent: float | None

    @property
    def same(self) -> bool:
        then, now = self.relative_percent, self.again_percent
        close = then is now if then is None or now is None else abs(then - now) <= TOLERANCE
        return close and self.verdict == self.again


def observations(table: Mapping[str, Any]) -> list[stats.Observation]:
    """Return the runs of a frozen table that can be compared: with several hosts, the mean of each."""
    runs = [
        MeasuredRun(
            level["label"],
            point["value"],
            int(point["block"]),
            point["position"],
            str(point.get("host", "")),
            int(point.get("retry", 0)),
        )
        for level in table["levels"]
        for point in level["points"]
    ]
    return joint_observations(runs, identical=bool(table.get("identical_hosts")))


def metric(table: Mapping[str, Any]) -> stats.Metric:
    return stats.Metric(table["metric"], table["unit"], table["better"])


def comparisons(table: Mapping[str, Any], rows: Sequence[stats.Observation]) -> dict[str, stats.Comparison]:
    """Return level -> its comparison with the baseline, for levels that can be compared."""
    measured = {row.level for row in rows}
    if table["baseline"] not in measured or len(measured) < 2:
        return {}
    starts = table.get("starts", {})
    against_baseline = stats.against_baseline(rows, table["baseline"], metric(table), table["delta"], starts)
    why = table.get("unplanned_analysis") or table.get("unplanned_look") or ""  # the name until 0.2
    return {comparison.b: interim_analyses.adjusted(comparison, why) for comparison in against_baseline}


def replay(evidence: Mapping[str, Any]) -> list[ReplayedLevel]:
    """Return a row for every level except the baseline.

    Levels that a stopping rule compared are left out: their intervals are adjusted for interim analyses, which the
    runs do not show."""
    table = evidence.get("table") or {}
    sequential_level = _sequential_level(table)
    if not table.get("levels"):
        return []
    by_level = comparisons(table, observations(table))
    return [
        _row(level, by_level.get(level["label"]))
        for level in table["levels"]
        if level["label"] not in (table["baseline"], sequential_level)
    ]


def _sequential_level(table: Mapping[str, Any]) -> str | None:
    """Return the level that a stopping rule compared with the baseline."""
    if "look" in table:  # the name until 0.2
        return ((table["look"] or {}).get("found") or {}).get("b")
    return ((table.get("interim_analysis") or {}).get("comparison") or {}).get("b")


def _row(level: Mapping[str, Any], comparison: stats.Comparison | None) -> ReplayedLevel:
    verdict, size = (comparison.verdict, comparison.ratio_percent) if comparison else ("", None)
    if level["verdict"] == BETTER_FAILING and verdicts.verdict(verdict).is_better:
        verdict = BETTER_FAILING  # the failures are facts of the evidence, and no result of the statistics
    return ReplayedLevel(level["label"], level["verdict"], verdict, level["relative_percent"], size)


def altered(evidence: Mapping[str, Any]) -> list[str]:
    """Return the IDs of runs whose figure in the table differs from the figures frozen with the run."""
    frozen = {run["id"]: set(run["measurements"].values()) for run in evidence.get("runs", [])}
    points = [point for level in (evidence.get("table") or {}).get("levels", []) for point in level["points"]]
    return [point["run"] for point in points if point["value"] not in frozen.get(point["run"], ())]
