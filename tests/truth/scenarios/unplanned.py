"""Campaigns that users extend or cancel once a level seems better: two identical levels in blocks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stats.model import Floats
from stats.stopping.unplanned import critical_t
from tests.truth.scenario import Scenario, Trial

LEAST = 3


@lru_cache
def _limits(planned: int, first: int, last: int) -> Floats:
    """The |t| that is significant after each number of blocks up to `last`; infinite where nobody looks."""
    from scipy import stats

    limits = np.full(last, np.inf)
    limits[first - 1 :] = [critical_t(blocks, blocks - 1) for blocks in range(first, last + 1)]
    limits[planned - 1] = stats.t.isf(0.025, planned - 1)
    return limits


def _claims(rng: np.random.Generator, planned: int, first: int, last: int) -> Trial:
    """Whether any analysis from the block `first` to `last` is significant."""
    differences, blocks = rng.standard_normal(last), np.arange(1, last + 1)
    means = np.cumsum(differences) / blocks
    squares = np.maximum(np.cumsum(differences**2) - blocks * means**2, 1e-12)
    t = np.abs(means[1:]) / np.sqrt(squares[1:] / blocks[:-1] / blocks[1:])
    return Trial(false=bool((t > _limits(planned, first, last)[1:]).any()))


def _extended(planned: int, most: int) -> Scenario:
    name = f"{planned} blocks, extended until a level is better, up to {most}"
    return Scenario(name, lambda rng: _claims(rng, planned, planned, most), campaigns=40_000, quick=2000)


def _cancelled(planned: int) -> Scenario:
    name = f"{planned} blocks, cancelled once a level is better"
    return Scenario(name, lambda rng: _claims(rng, planned, LEAST, planned), campaigns=40_000, quick=2000)


SCENARIOS = [
    *(_extended(planned, most) for planned in (3, 5, 10, 20) for most in (20, 40) if most > planned),
    *(_cancelled(planned) for planned in (5, 10, 20, 40)),
]
