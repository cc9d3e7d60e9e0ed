"""Levels of one campaign against its baseline, with equal and unequal variances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from stats import against_baseline
from stats.comparison.family import critical
from stats.comparison.spreads import levels_apart
from stats.model import Floats, Interval
from tests.truth.campaigns import DELTA, TPS, judged, judged_intervals, observations
from tests.truth.scenario import Limits, Scenario, Trial

SD = 0.01
PILOT = 3
# The difference that 80 % of campaigns with equal spreads of 1 % and 5 runs find: Dunnett's, in whole blocks.
DIFFERENCE = {2: 0.02379, 4: 0.02266, 8: 0.02313}


def _levels(
    sds: Sequence[float], difference: float = 0.0, *, runs: int = 5, blocked: bool = True
) -> Callable[[np.random.Generator], Trial]:
    """A trial: the last level differs by so much, the others not at all."""
    effects = [0.0] * (len(sds) - 1) + [difference]

    def trial(rng: np.random.Generator) -> Trial:
        rows = observations(rng, effects, sds, runs, blocked=blocked)
        logs = np.log([row.value for row in rows]).reshape(len(sds), runs).T
        if blocked and len(sds) > 2 and not levels_apart(logs, blocked=True).apart:
            return judged_intervals(_dunnett(logs), effects[1:])
        truth = {f"l{level}": effect for level, effect in enumerate(effects)}
        return judged(against_baseline(rows, "l0", TPS, DELTA), truth)

    return trial


def _dunnett(logs: Floats) -> list[tuple[Interval, Interval]]:
    """The intervals of against_baseline for levels with one variance, in blocks; all that a verdict depends on."""
    runs, levels = logs.shape
    left = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    df = (runs - 1) * (levels - 1)
    error = math.sqrt((left**2).sum() / df * 2 / runs)
    differences = logs.mean(axis=0)[1:] - logs.mean(axis=0)[0]
    shared = (round(math.sqrt(0.5), 4),) * (levels - 1)
    wide, narrow = (critical(shared, df, level) * error for level in (0.95, 0.90))
    return [((each - wide, each + wide), (each - narrow, each + narrow)) for each in differences.tolist()]


def _advice(runs: int, blocked: bool) -> Callable[[np.random.Generator], Trial]:
    """A trial: two levels, a pilot of so many runs that differ by 2 % (sd), and the campaign that it advises."""
    sd, true = 0.02, math.log1p(DELTA)

    def trial(rng: np.random.Generator) -> Trial:
        pilot = observations(rng, [0, true], [sd, sd], runs, blocked=blocked)
        advised = against_baseline(pilot, "l0", TPS, DELTA)[0].runs_needed or runs
        again = observations(rng, [0, true], [sd, sd], min(advised, 300), blocked=blocked)
        outcome = judged(against_baseline(again, "l0", TPS, DELTA), {"l1": true})
        return Trial(advice=outcome.finds)

    return trial


POWER, ADVICE = Limits(finds=0.75), Limits(advice=0.80)
NOISY, CALM = 0.03, 0.005
SCENARIOS = [
    *(Scenario(f"levels alike, {k} in blocks, 5 runs", _levels([SD] * k)) for k in (2, 4, 8)),
    Scenario("levels alike, 4 without blocks, 5 runs", _levels([SD] * 4, blocked=False)),
    *(
        Scenario(f"levels alike, {k} in blocks, one differs", _levels([SD] * k, DIFFERENCE[k]), limits=POWER)
        for k in (2, 4, 8)
    ),
    *(
        Scenario(f"baseline sd 3 %, others 0.5 %, {k} in blocks, 5 runs", _levels([NOISY] + [CALM] * (k - 1)))
        for k in (2, 4, 8)
    ),
    # Their false alarms keep the limit, but their intervals cover too seldom.
    *(
        Scenario(f"one level sd {100 * sd:g} %, others 0.5 %, 4 in blocks", _levels([CALM] * 3 + [sd]), open=True)
        for sd in (0.01, 0.015, NOISY)
    ),
    # No rule that judges by the largest t and the baseline's variance keeps 6 % here, has Dunnett's intervals where
    # variances look alike and then finds 77 % (tests/stats/comparison/test_unequal_variances_bound.py).
    *(
        Scenario(
            f"baseline sd {100 * sd:g} %, others 1 %, {k} in blocks, 5 runs", _levels([sd] + [SD] * (k - 1)), open=True
        )
        for sd in (0.015, 0.02)
        for k in (4, 8)
    ),
    Scenario("runs needed from a pilot of 3, in blocks", _advice(PILOT, True), limits=ADVICE),
    Scenario("runs needed from a pilot of 3, without blocks", _advice(PILOT, False), limits=ADVICE),
    Scenario("runs needed from 10 runs, in blocks", _advice(10, True), limits=ADVICE),
]
