"""The number of repetitions that would reproduce the verdicts of frozen evidence. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import stats
from apps.decisions.evidence import replay
from common.verdicts import verdict
from stats.model import PRELIMINARY_BELOW
from stats.power import ALPHA

MOST = 200


def repetitions(evidence: Mapping[str, Any], level: str = "") -> int:
    """Return the repetitions with which four of five campaigns reach the same certain verdict, if the effect is
    unchanged.

    Of the chosen `level`, else of all levels with a certain verdict. At least as many as a verdict needs that is not
    preliminary."""
    table = evidence["table"]
    comparisons = replay.comparisons(table, replay.observations(table))
    certain = {label: each for label, each in comparisons.items() if verdict(each.verdict).is_certain}
    relevant = [certain[level]] if level in certain else list(certain.values() or comparisons.values())
    counts = [_of(each, table["delta"], ALPHA / max(1, len(comparisons))) for each in relevant]
    return min(MOST, max([PRELIMINARY_BELOW, *counts]))


def _of(comparison: stats.Comparison, delta: float, alpha: float) -> int:
    """Return the runs for an interval as wide as the distance from effect to margin: beyond it for better or worse,
    within it for equivalent.

    For a verdict that was not certain: the runs that detect a difference of the margin."""
    if not comparison.s:
        return 0
    effect, margin = abs(math.log1p(comparison.ratio_percent / 100)), math.log1p(delta)
    way = abs(effect - margin) if verdict(comparison.verdict).is_certain else margin
    paired = comparison.method.startswith("paired")
    return stats.runs_needed(comparison.s, math.expm1(way), paired=paired, alpha=alpha) if way else MOST
