"""The level that answers the question of a campaign, or why none does yet. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from apps.results.answers.table import LevelRow
from common.verdicts import VERDICTS

ORDER = tuple(VERDICTS)


def headline(levels: Sequence[LevelRow], better: str) -> LevelRow | None:
    """Return the level with the first verdict in ORDER and, of several, the best mean; None without comparisons."""
    compared = [level for level in levels if level.verdict and level.relative_percent is not None]
    if not compared:
        return None
    first = min(ORDER.index(level.verdict) for level in compared)
    upward = 1 if better == "higher" else -1
    return max(
        (level for level in compared if ORDER.index(level.verdict) == first),
        key=lambda level: upward * (level.relative_percent or 0.0),
    )


def no_comparison_reason(levels: Sequence[LevelRow], baseline: str) -> str:
    """Return why there is no comparison."""
    if not any(level.ok for level in levels) and any(level.zeros for level in levels):
        return "the figure is 0 in every run, so it has no ratio"
    if not any(level.ok for level in levels):
        return "every run failed or was cancelled" if any(level.not_ok for level in levels) else "no run has ended yet"
    base = next(level for level in levels if level.label == baseline)
    if not base.ok:
        return f"the baseline {base.name or base.label} has no successful run"
    return "only the baseline has results"
