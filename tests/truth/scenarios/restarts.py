"""Orders with fewer restarts: runs of one start of the server share its random effect."""

from __future__ import annotations

import math

import numpy as np

from stats import Observation, against_baseline, crossed, main_effects
from tests.truth.campaigns import DELTA, TPS, judged
from tests.truth.scenario import Scenario, Trial

SD, START_SD = 0.005, 0.02
LEVELS = {"restart": ("r0", "r1"), "live": ("l0", "l1", "l2", "l3")}


def _starts(blocks: int) -> Scenario:
    cells = {f"{a}, {b}": (a, b) for a in LEVELS["restart"] for b in LEVELS["live"]}

    def trial(rng: np.random.Generator) -> Trial:
        starts = rng.normal(0, START_SD, (blocks, 2))
        rows = [
            Observation(level, block, math.exp(starts[block, LEVELS["restart"].index(a)] + rng.normal(0, SD)), 0)
            for block in range(blocks)
            for level, (a, _) in cells.items()
        ]
        effects = main_effects(crossed(LEVELS, cells, rows, frozenset({"restart"})), TPS, DELTA)
        return judged([one for name, one in effects if name == "restart"], {"restart r1": 0.0})

    return Scenario(f"fewest restarts, start sd 2 %, {blocks} blocks, main effect", trial, campaigns=2000)


def _levels(a: int, b: int, blocks: int, start_sd: float = START_SD, live_effect: float = 0.0) -> Scenario:
    """Every level against the first, which shares its start with `b` - 1 others. `live_effect`: of the last of
    these, in logs."""
    cells = {f"r{i}, l{j}": (i, j) for i in range(a) for j in range(b)}
    truth = {level: live_effect * ((i, j) == (0, b - 1)) for level, (i, j) in cells.items()}
    shared = {level: (0, 0, i) for level, (i, _) in cells.items()}

    def trial(rng: np.random.Generator) -> Trial:
        starts, of_block = rng.normal(0, start_sd, (blocks, a)), rng.normal(0, 0.03, blocks)
        rows = [
            Observation(
                level, block, math.exp(of_block[block] + starts[block, i] + truth[level] + rng.normal(0, SD)), 0
            )
            for block in range(blocks)
            for level, (i, _) in cells.items()
        ]
        return judged(against_baseline(rows, "r0, l0", TPS, DELTA, shared), truth)

    what = f"one differs by {100 * live_effect:g} %" if live_effect else "each level"
    name = f"fewest restarts, start sd {100 * start_sd:g} %, {a} x {b}, {blocks} blocks, {what}"
    return Scenario(name, trial, campaigns=600, quick=10)


def _unlike(a: int, b: int, blocks: int, place: int, times: float, what: str) -> Scenario:
    """Every level against the first, without differences; the level at `place` is so many times as noisy."""
    levels = [f"r{i}, l{j}" for i in range(a) for j in range(b)]
    start = np.repeat(np.arange(a), b)
    shared = {level: (0, 0, int(i)) for level, i in zip(levels, start, strict=True)}
    sds = np.full(a * b, SD)
    sds[place] *= times

    def trial(rng: np.random.Generator) -> Trial:
        y = rng.normal(0, 0.03, (blocks, 1)) + rng.normal(0, START_SD, (blocks, a))[:, start]
        y = y + rng.normal(0, 1, (blocks, a * b)) * sds
        rows = [
            Observation(level, block, math.exp(y[block, each]), 0)
            for block in range(blocks)
            for each, level in enumerate(levels)
        ]
        return judged(against_baseline(rows, levels[0], TPS, DELTA, shared), dict.fromkeys(levels, 0.0))

    name = f"fewest restarts, start sd 2 %, {a} x {b}, {blocks} blocks, {what} {times:g} times as noisy"
    return Scenario(name, trial, campaigns=1000, quick=10)


SCENARIOS = [
    *(_starts(blocks) for blocks in (3, 5, 10)),
    *(_levels(2, 4, blocks) for blocks in (3, 5, 10)),
    _levels(4, 2, 5),
    _levels(2, 4, 5, start_sd=0.0),
    _levels(2, 4, 5, live_effect=0.02),
    *(_unlike(2, 4, 5, 0, times, "baseline") for times in (2, 4)),
    _unlike(4, 2, 5, 0, 4, "baseline"),
    _unlike(2, 4, 5, 7, 4, "a level of another start"),
    _unlike(2, 4, 10, 1, 3, "a level of the same start"),
    _unlike(2, 2, 8, 3, 8, "a level of another start"),
]
