"""Runs with two modes or heavy tails. Whether levels are compared by means or by ranks is part of each trial."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stats import Observation, against_baseline
from stats.comparison.pairs import estimate_arms
from stats.model import Floats
from tests.truth.campaigns import DELTA, TPS, judged, judged_intervals
from tests.truth.scenario import Limits, Scenario, Trial

SD, SLOWER, SHARE = 0.01, 0.1, 0.2
TRUE = math.log1p(0.02)


def _two_modes(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return rng.normal(0, SD, size) - SLOWER * (rng.random(size) < SHARE)


def _near_modes(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return rng.normal(0, SD, size) - SLOWER / 2 * (rng.random(size) < SHARE)


def _heavy(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return np.asarray(SD * rng.standard_t(3, size))


def _skewed(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return np.asarray(SD * rng.standard_exponential(size))


def _normal(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return np.asarray(rng.normal(0, SD, size))


NOISE = {
    "20 % of runs 10 % slower": _two_modes,
    "20 % of runs 5 % slower": _near_modes,
    "t noise, 3 df": _heavy,
    "exponential noise": _skewed,
    "normal noise": _normal,
}


def _trial(noise: str, runs: int, blocked: bool, levels: int, true: float) -> Callable[[np.random.Generator], Trial]:
    """A trial: the last level differs by `true`, the others not at all."""

    def trial(rng: np.random.Generator) -> Trial:
        logs = NOISE[noise](rng, (levels, runs)) + (rng.normal(0, 0.03, runs) if blocked else 0.0)
        logs[-1] += true
        if levels == 2:
            estimate = estimate_arms(logs[0], logs[1], blocked=blocked)  # all that the verdict depends on
            return judged_intervals([(estimate.interval, estimate.interval_90)], [true])
        rows = [
            Observation(f"l{level}", place if blocked else level * runs + place, 1000 * math.exp(y), place)
            for level in range(levels)
            for place, y in enumerate(logs[level])
        ]
        truth = {f"l{level}": true if level == levels - 1 else 0.0 for level in range(levels)}
        return judged(against_baseline(rows, "l0", TPS, DELTA), truth)

    return trial


def _scenario(
    noise: str, runs: int, *, blocked: bool = False, levels: int = 2, true: float = 0.0, finds: float | None = None
) -> Scenario:
    design = f"{levels} {'in' if blocked else 'without'} blocks, {runs} runs"
    differs = f", one differs by {100 * math.expm1(true):.2g} %" if true else ""
    return Scenario(
        f"{noise}, {design}{differs}", _trial(noise, runs, blocked, levels, true), limits=Limits(finds=finds)
    )


SCENARIOS = [
    *(
        _scenario("20 % of runs 10 % slower", runs, blocked=blocked, true=TRUE, finds=finds)
        for blocked, runs, finds in ((False, 10, 0.55), (False, 20, 0.88), (True, 10, 0.36), (True, 20, 0.62))
    ),
    *(_scenario("20 % of runs 10 % slower", runs, blocked=blocked) for blocked in (False, True) for runs in (10, 20)),
    *(_scenario(noise, 20, blocked=blocked) for noise in list(NOISE)[1:] for blocked in (False, True)),
    _scenario("20 % of runs 10 % slower", 20, levels=4),
]
