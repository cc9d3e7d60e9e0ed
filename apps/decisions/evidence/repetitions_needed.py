"""How many repetitions would reproduce the verdicts of frozen evidence. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import stats
from apps.decisions.evidence import replay
from stats.model import PRELIMINARY_BELOW
from stats.power import ALPHA

CERTAIN = ("better", "worse", "equivalent")
MOST = 200


def repetitions(evidence: Mapping[str, Any], level: str = "") -> int:
    """So many that four of five campaigns come to the same certain verdict, where the effect is what it was: of the
    chosen `level`, else of all that are certain. Never so few that their verdict would be called preliminary."""
    table = evidence["table"]
    comparisons = replay.comparisons(table, replay.observations(table))
    certain = {label: each for label, each in comparisons.items() if each.verdict in CERTAIN}
    relevant = [certain[level]] if level in certain else list(certain.values() or comparisons.values())
    counts = [_of(each, table["delta"], ALPHA / max(1, len(comparisons))) for each in relevant]
    return min(MOST, max([PRELIMINARY_BELOW, *counts]))


def _of(comparison: stats.Comparison, delta: float, alpha: float) -> int:
    """An interval as wide as the way from the effect to the margin: beyond it for better or worse, inside of it for
    equivalent. What was not certain needs what finds a difference of the margin."""
    if not comparison.s:
        return 0
    effect, margin = abs(math.log1p(comparison.ratio_percent / 100)), math.log1p(delta)
    way = abs(effect - margin) if comparison.verdict in CERTAIN else margin
    paired = comparison.method.startswith("paired")
    return stats.runs_needed(comparison.s, math.expm1(way), paired=paired, alpha=alpha) if way else MOST
