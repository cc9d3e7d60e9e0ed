"""The order of runs: drift over a campaign, and changes in a history of one spec."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stats import Observation, change_points, order_trend
from tests.truth.campaigns import DELTA
from tests.truth.scenario import Limits, Scenario, Trial
from tests.truth.scenarios.within_runs import autocorrelated

SD = 0.01


def _drift(
    levels: int, blocks: int, *, block_sd: float = 0.0, phi: float = 0.0, wander: float = 0.0, total: float = 0.0
) -> Callable[[np.random.Generator], Trial]:
    """A trial: logs change evenly by `total` over the campaign; blocks, or neighbours in time, share noise."""
    n = levels * blocks

    def trial(rng: np.random.Generator) -> Trial:
        order = np.concatenate([rng.permutation(levels) for _ in range(blocks)])
        y = np.repeat(rng.normal(0, block_sd, blocks), levels) + rng.normal(0, SD, n)
        y += wander * autocorrelated(rng, n, phi) + total * np.arange(n) / (n - 1)
        rows = [
            Observation(f"l{level}", place // levels, 1000 * math.exp(value), place)
            for place, (level, value) in enumerate(zip(order, y, strict=True))
        ]
        estimate = order_trend(rows, DELTA)
        low, high = estimate.interval or (-math.inf, math.inf)
        return Trial(
            false=estimate.negligible if total else estimate.banner,
            covers=low <= 100 * math.expm1(total / (n - 1)) <= high,
            finds=estimate.banner if total else None,
        )

    return trial


def _changes(n: int, phi: float, change: float = 0.0) -> Callable[[np.random.Generator], Trial]:
    """A trial: a history of `n` runs; after half of it, the level changes by `change`."""

    def trial(rng: np.random.Generator) -> Trial:
        y = 0.02 * autocorrelated(rng, n, phi) + np.where(np.arange(n) >= n // 2, change, 0.0)
        points = change_points(list(1000 * np.exp(y)), ["same"] * n, DELTA)
        if change:
            return Trial(finds=any(abs(one.at - n // 2) <= 5 for one in points))
        return Trial(false=bool(points))

    return trial


SCENARIOS = [
    Scenario("drift, none, 8 levels x 3, blocks sd 3 %", _drift(8, 3, block_sd=0.03), campaigns=2000),
    Scenario("drift, none, 8 levels x 3, runs independent", _drift(8, 3), campaigns=2000),
    Scenario("drift, none, 2 levels x 5, blocks sd 3 %", _drift(2, 5, block_sd=0.03), campaigns=4000),
    Scenario("drift, none, 4 levels x 5, blocks sd 3 %", _drift(4, 5, block_sd=0.03), campaigns=2000),
    Scenario("drift, none, 8 levels x 3, autocorrelation 0.6", _drift(8, 3, phi=0.6, wander=0.02), campaigns=2000),
    Scenario(
        "drift of 6 %, 8 levels x 3, blocks sd 1 %",
        _drift(8, 3, block_sd=0.01, total=0.06),
        campaigns=2000,
        limits=Limits(finds=0.7),
    ),
    Scenario(
        "drift of 3 %, 8 levels x 3, runs independent",
        _drift(8, 3, total=0.03),
        campaigns=2000,
        limits=Limits(finds=0.2),
    ),
    *(
        Scenario(
            f"change of a history, none, 40 runs, autocorrelation {phi:g}", _changes(40, phi), campaigns=1000, quick=12
        )
        for phi in (0.0, 0.3, 0.6, 0.9)
    ),
    *(
        Scenario(
            f"change of a history, none, 100 runs, autocorrelation {phi:g}", _changes(100, phi), campaigns=300, quick=8
        )
        for phi in (0.6, 0.9)
    ),
    *(
        Scenario(
            f"change of a history by 5 %, 40 runs, autocorrelation {phi:g}",
            _changes(40, phi, 0.05),
            campaigns=400,
            quick=10,
        )
        for phi in (0.0, 0.6)
    ),
]
