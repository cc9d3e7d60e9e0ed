"""Simulated campaigns as the product's observations, and what a trial reads from its comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stats import Comparison, Metric, Observation
from stats.model import Interval, decide, ratio_interval
from tests.truth.scenario import Trial

TPS = Metric("tps", "tps", "higher")
DELTA = 0.02
CLAIMS = ("better", "worse", "direction_better", "direction_worse")


def observations(
    rng: np.random.Generator,
    effects: Sequence[float],
    sds: Sequence[float],
    runs: int,
    *,
    blocked: bool = True,
    block_sd: float = 0.03,
) -> list[Observation]:
    """Level 0 is the baseline; `effects` and `sds` of each level are in logs. Unblocked runs have a block each."""
    of_block = rng.normal(0, block_sd, runs) if blocked else np.zeros(runs)
    rows = []
    for level, (effect, sd) in enumerate(zip(effects, sds, strict=True)):
        for place, y in enumerate(of_block + effect + rng.normal(0, sd, runs)):
            block = place if blocked else level * runs + place
            rows.append(Observation(f"l{level}", block, 1000 * math.exp(y), place * len(effects) + level))
    return rows


def judged(comparisons: Sequence[Comparison], truth: Mapping[str, float]) -> Trial:
    """`truth`: level -> its true difference from the baseline, in logs. `finds` asks of the last level that differs."""
    different = [one for one in comparisons if truth[one.b]]
    return Trial(
        false=any(one.verdict in CLAIMS for one in comparisons if not truth[one.b])
        if len(different) < len(comparisons)
        else None,
        covers=all(_covers(one, truth[one.b]) for one in comparisons),
        finds=_finds(different[-1], truth[different[-1].b]) if different else None,
    )


def judged_intervals(intervals: Sequence[tuple[Interval, Interval]], truths: Sequence[float]) -> Trial:
    """The same of 95 % and 90 % intervals in logs, one pair for each level, with their true differences."""
    verdicts = [decide(ratio_interval(*wide), ratio_interval(*narrow), DELTA, "higher") for wide, narrow in intervals]
    claims = [verdict in CLAIMS for verdict, truth in zip(verdicts, truths, strict=True) if not truth]
    low, high = intervals[-1][0]
    return Trial(
        false=any(claims) if claims else None,
        covers=all(wide[0] <= truth <= wide[1] for (wide, _), truth in zip(intervals, truths, strict=True)),
        finds=(low > 0 if truths[-1] > 0 else high < 0) if truths[-1] else None,
    )


def _covers(one: Comparison, truth: float) -> bool:
    if one.interval is None:
        return True
    low, high = one.interval
    return low <= 100 * math.expm1(truth) <= high


def _finds(one: Comparison, truth: float) -> bool:
    if one.interval is None:
        return False
    return one.interval[0] > 0 if truth > 0 else one.interval[1] < 0
