"""Campaigns of identical levels that are read after every run while they run, and at their planned end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stats import Observation, against_baseline, at_unplanned_analysis
from tests.truth.campaigns import CLAIMS, DELTA, TPS, observations
from tests.truth.scenario import Scenario, Trial

SD = 0.01
LEAST = 3  # runs of each level; fewer have no interval


def _in_order(rng: np.random.Generator, rows: Sequence[Observation], levels: int) -> list[Observation]:
    """The runs in random order within blocks."""
    blocks = max(row.block for row in rows) + 1
    of_block: list[list[Observation]] = [[] for _ in range(blocks)]
    for row in rows:
        of_block[row.block].append(row)
    return [own[place] for own in of_block for place in rng.permutation(levels)]


def _watched(levels: int, blocks: int) -> Scenario:
    """`false`: a claim at any reading, the planned end included. `covers`: all intervals of all readings before it."""

    def trial(rng: np.random.Generator) -> Trial:
        rows = _in_order(rng, observations(rng, [0.0] * levels, [SD] * levels, blocks), levels)
        live = [
            at_unplanned_analysis(one, is_live=True)
            for seen in range(levels * LEAST, len(rows))
            for one in against_baseline(rows[:seen], "l0", TPS, DELTA)
        ]
        final = against_baseline(rows, "l0", TPS, DELTA)
        intervals = [one.interval for one in live if one.interval]
        return Trial(
            false=any(one.verdict in CLAIMS for one in [*live, *final]),
            covers=all(low <= 0 <= high for low, high in intervals),
        )

    name = f"{levels} levels, {blocks} blocks, read after every run"
    return Scenario(name, trial, campaigns=2000 if blocks < 10 else 1000, quick=3)


SCENARIOS = [_watched(2, 10), _watched(3, 5), _watched(4, 5), _watched(4, 10), _watched(8, 5)]
