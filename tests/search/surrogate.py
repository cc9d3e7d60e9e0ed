"""A simulated server with six settings that interact and a known throughput: noisy, drifting and partly unstable."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from apps.searches import space
from apps.searches.space import Dimension, Value, Values

LINES = (
    "shared_buffers 32MB to 4GB log",
    "work_mem 64kB to 256MB log",
    "max_wal_size 64MB to 16GB log",
    "random_page_cost 1 to 8",
    "effective_io_concurrency 1 to 256",
    "jit on, off",
)
SPACE = space.read(LINES)
DEFAULT: Values = {
    "shared_buffers": 16384,
    "work_mem": 4096,
    "max_wal_size": 1024,
    "random_page_cost": 4.0,
    "effective_io_concurrency": 16,
    "jit": "on",
}
# The best position of each setting in its range, from 0 to 1, and the loss of log throughput at distance 1.
BEST = {"shared_buffers": 0.75, "work_mem": 0.55, "max_wal_size": 0.85, "random_page_cost": 0.05}
LIMIT_MS = 10.0
COST = {"shared_buffers": 0.9, "work_mem": 0.3, "max_wal_size": 0.5, "random_page_cost": 0.25}


@dataclass(frozen=True)
class Surrogate:
    """`noise`: standard deviation of the log of a run. `faulty`: 15 % of the space fails, and 15 % halves every third
    run. `flat`: every candidate equals the default. `limited`: the p99 of half of the space, which has the best gains,
    is above LIMIT_MS."""

    noise: float
    faulty: bool = True
    flat: bool = False
    limited: bool = False

    def gain(self, values: Values) -> float:
        """The true log ratio to the default."""
        return 0.0 if self.flat else self._log(values) - self._log(DEFAULT)

    def _log(self, values: Values) -> float:
        at = {
            dimension.name: dimension.position(values[dimension.name])
            for dimension in SPACE.dimensions
            if dimension.kind != "choice"
        }
        loss = sum(COST[name] * (at[name] - BEST[name]) ** 2 for name in BEST)
        # Much memory of both kinds leads to swapping; concurrency helps if the cache is small.
        swap = 0.8 * max(0.0, at["shared_buffers"] + at["work_mem"] - 1.5) ** 2
        io = 0.1 * at["effective_io_concurrency"] * (1 - at["shared_buffers"])
        return io - loss - swap - (0.05 if values["jit"] == "on" else 0.0)

    def fails(self, values: Values) -> bool:
        """15 % of the space: the largest shared_buffers."""
        return self.faulty and SPACE.dimensions[0].position(values["shared_buffers"]) > 0.85

    def is_unstable(self, values: Values) -> bool:
        """15 % of the space, near its best values."""
        return self.faulty and 0.55 < SPACE.dimensions[1].position(values["work_mem"]) < 0.7

    def breaks_limit(self, values: Values) -> bool:
        """Whether its true p99 is above the limit."""
        return self.limited and self._log_p99(values) > math.log(LIMIT_MS)

    def _log_p99(self, values: Values) -> float:
        return math.log(LIMIT_MS) + 1.5 * (SPACE.dimensions[0].position(values["shared_buffers"]) - 0.5)

    def p99_ms(self, values: Values, rng: np.random.Generator) -> float:
        """Of one run, with the noise of the throughput."""
        return math.exp(self._log_p99(values) + self.noise * float(rng.standard_normal()))

    def run(self, values: Values, block: float, rng: np.random.Generator) -> float | None:
        """The log throughput of one run in a block; None if it fails."""
        if self.fails(values):
            return None
        dip = math.log(0.5) if self.is_unstable(values) and rng.random() < 1 / 3 else 0.0
        return self.gain(values) + block + self.noise * float(rng.standard_normal()) + dip


def best_gain(limited: bool = False) -> float:
    """The largest gain among 200 000 random candidates, without those that fail, are unstable or break the limit."""
    rng, server, best = np.random.default_rng(1), Surrogate(0.0, limited=limited), 0.0
    for _ in range(200_000):
        values: Values = {dimension.name: _at(dimension, rng.random()) for dimension in SPACE.dimensions}
        if not server.fails(values) and not server.is_unstable(values) and not server.breaks_limit(values):
            best = max(best, server.gain(values))
    return best


def _at(each: Dimension, share: float) -> Value:
    if each.kind == "choice":
        return each.choices[int(share * len(each.choices))]
    return each.low * (each.high / each.low) ** share if each.log else each.low + share * (each.high - each.low)
