"""CPU time per transaction next to the verdict on throughput: it may be certain where the other is not. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

import stats
from agents.collectors.per_transaction import CPU, PER_TRANSACTION
from apps.results.answers.table import LevelRow
from common.verdicts import INCONCLUSIVE, verdict
from common.wording import p_value, percent, signed

METRIC = stats.Metric(CPU, PER_TRANSACTION[CPU].unit, "lower")


def with_cpu(level: LevelRow, compared: stats.Comparison | None, metric: str, baseline: str) -> LevelRow:
    """Add a sentence on CPU time if the level's own verdict is inconclusive and that of CPU time is certain.
    `metric`, `baseline`: names for users."""
    if level.verdict != INCONCLUSIVE or compared is None:
        return level
    shown = verdict(compared.verdict)
    if not (shown.is_certain and (shown.is_better or shown.is_worse)):
        return level
    more = "less" if shown.is_better else "more"
    low, high = compared.interval or (math.nan, math.nan)
    certainty = f"95 % CI {signed(low)} to {signed(high)} %" + (f", {p_value(compared.p)}" if compared.p else "")
    needs = f"{level.name or level.label} needs {more} CPU time per transaction than {baseline}"
    sentence = f"{metric} is inconclusive, but {needs}: {percent(compared.ratio_percent)} ({certainty})."
    return replace(level, cpu=sentence)
