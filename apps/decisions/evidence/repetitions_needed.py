"""How many repetitions would find again what frozen evidence found. Pure."""

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
    found = replay.comparisons(table, replay.observations(table))
    certain = {label: each for label, each in found.items() if each.verdict in CERTAIN}
    asked = [certain[level]] if level in certain else list(certain.values() or found.values())
    counts = [_of(each, table["delta"], ALPHA / max(1, len(found))) for each in asked]
    return min(MOST, max([PRELIMINARY_BELOW, *counts]))


def _of(found: stats.Comparison, delta: float, alpha: float) -> int:
    """An interval as wide as the way from the effect to the margin: beyond it for better or worse, inside of it for
    equivalent. What was not certain needs what finds a difference of the margin."""
    if not found.s:
        return 0
    effect, margin = abs(math.log1p(found.ratio_percent / 100)), math.log1p(delta)
    way = abs(effect - margin) if found.verdict in CERTAIN else margin
    paired = found.method.startswith("paired")
    return stats.runs_needed(found.s, math.expm1(way), paired=paired, alpha=alpha) if way else MOST
