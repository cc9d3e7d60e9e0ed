"""Simulated servers with a known throughput, which six settings change: noisy, drifting and partly unstable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from apps.searches.space import Dimension, Value, Values
from tests.search.surfaces import SURFACES, Surface

LIMIT_MS = 10.0
FAILS_ABOVE = 0.85  # the position of the first setting
UNSTABLE = (0.55, 0.7)  # the position of the second one
DIP_SHARE, DIP = 1 / 3, math.log(0.5)  # of the runs of an unstable candidate
SLOW_SHARE, SLOW = 0.3, math.log(0.85)  # of the runs of a bimodal server, whatever their settings
POINTS = 200_000


@dataclass(frozen=True)
class Surrogate:
    """`noise`: standard deviation of the log of a run. `faulty`: 15 % of the space fails, and 15 % halves every third
    run. `flat`: every candidate equals the default. `limited`: the p99 of half of the space is above LIMIT_MS.
    `bimodal`: 30 % of all runs are 15 % slower. `surface`: a key of SURFACES."""

    noise: float
    faulty: bool = True
    flat: bool = False
    limited: bool = False
    bimodal: bool = False
    surface: str = "formula"

    @property
    def of(self) -> Surface:
        """The space, the default and the throughput."""
        return SURFACES[self.surface]()

    def gain(self, values: Values) -> float:
        """The true log ratio to the default: the mean over many runs."""
        return self._steady(values) + (DIP * DIP_SHARE if self.is_unstable(values) else 0.0)

    def _steady(self, values: Values) -> float:
        return 0.0 if self.flat else self.of.log(values) - self.of.log(self.of.default)

    def fails(self, values: Values) -> bool:
        """15 % of the space: the largest values of the first setting."""
        return self.faulty and self._position(0, values) > FAILS_ABOVE

    def is_unstable(self, values: Values) -> bool:
        """15 % of the space: values of the second setting in its upper half."""
        return self.faulty and UNSTABLE[0] < self._position(1, values) < UNSTABLE[1]

    def breaks_limit(self, values: Values) -> bool:
        """Whether its true p99 is above the limit."""
        return self.limited and self._log_p99(values) > math.log(LIMIT_MS)

    def _log_p99(self, values: Values) -> float:
        return math.log(LIMIT_MS) + 1.5 * (self._position(0, values) - 0.5)

    def _position(self, index: int, values: Values) -> float:
        dimension = self.of.space.dimensions[index]
        return dimension.position(values[dimension.name])

    def p99_ms(self, values: Values, rng: np.random.Generator) -> float:
        """Of one run, with the noise of the throughput."""
        return math.exp(self._log_p99(values) + self.noise * float(rng.standard_normal()))

    def run(self, values: Values, block: float, rng: np.random.Generator) -> float | None:
        """The log throughput of one run in a block; None if it fails."""
        if self.fails(values):
            return None
        dip = DIP if self.is_unstable(values) and rng.random() < DIP_SHARE else 0.0
        slow = SLOW if self.bimodal and rng.random() < SLOW_SHARE else 0.0
        return self._steady(values) + block + self.noise * float(rng.standard_normal()) + dip + slow


@cache
def best_gain(surface: str, *, limited: bool = False) -> float:
    """The largest gain of random candidates, without those that fail, are unstable or break the limit."""
    rng, server, best = np.random.default_rng(1), Surrogate(0.0, limited=limited, surface=surface), 0.0
    for _ in range(POINTS):
        values = {dimension.name: _at(dimension, rng.random()) for dimension in server.of.space.dimensions}
        if not server.fails(values) and not server.is_unstable(values) and not server.breaks_limit(values):
            best = max(best, server.gain(values))
    return best


def _at(each: Dimension, share: float) -> Value:
    if each.kind == "choice":
        return each.choices[int(share * len(each.choices))]
    return each.low * (each.high / each.low) ** share if each.log else each.low + share * (each.high - each.low)
