"""Orders with fewer restarts: runs of one start of the server share its random effect."""

from __future__ import annotations

import math

import numpy as np

from stats import Observation, crossed, main_effects
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


SCENARIOS = [_starts(blocks) for blocks in (3, 5, 10)]
