"""The true throughput of simulated servers: of a formula, and of real runs that tests.search.real_runs measured."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.interpolate import RBFInterpolator

from apps.searches import space
from apps.searches.space import Dimension, Space, Value, Values

MEASURED = Path(__file__).parent / "real_runs.csv"
MEASURED_LINES = (
    "work_mem 64kB to 64MB log",
    "random_page_cost 1 to 8",
    "hash_mem_multiplier 1 to 8",
    "effective_cache_size 8MB to 4GB log",
    "max_parallel_workers_per_gather 0 to 4",
    "enable_nestloop on, off",
)
MEASURED_DEFAULT: Values = {
    "work_mem": 4096,
    "random_page_cost": 4.0,
    "hash_mem_multiplier": 2.0,
    "effective_cache_size": 524288,
    "max_parallel_workers_per_gather": 2,
    "enable_nestloop": "on",
}
FORMULA_LINES = (
    "shared_buffers 32MB to 4GB log",
    "work_mem 64kB to 256MB log",
    "max_wal_size 64MB to 16GB log",
    "random_page_cost 1 to 8",
    "effective_io_concurrency 1 to 256",
    "jit on, off",
)
FORMULA_DEFAULT: Values = {
    "shared_buffers": 16384,
    "work_mem": 4096,
    "max_wal_size": 1024,
    "random_page_cost": 4.0,
    "effective_io_concurrency": 16,
    "jit": "on",
}
# The best position of each setting in its range, from 0 to 1, and the loss of log throughput at distance 1.
BEST = {"shared_buffers": 0.75, "work_mem": 0.55, "max_wal_size": 0.85, "random_page_cost": 0.05}
COST = {"shared_buffers": 0.9, "work_mem": 0.3, "max_wal_size": 0.5, "random_page_cost": 0.25}

SMOOTHINGS, FOLDS = (0.001, 0.01, 0.1, 1.0, 10.0), 5


@dataclass(frozen=True)
class Surface:
    """`log`: the true log throughput of values, up to a constant."""

    space: Space
    default: Values
    log: Callable[[Values], float]


@cache
def formula() -> Surface:
    """Settings that interact: much memory of both kinds leads to swapping, and concurrency helps if the cache is
    small."""
    settings = space.read(FORMULA_LINES)

    def log(values: Values) -> float:
        at = {each.name: each.position(values[each.name]) for each in settings.dimensions if each.kind != "choice"}
        loss = sum(COST[name] * (at[name] - BEST[name]) ** 2 for name in BEST)
        swap = 0.8 * max(0.0, at["shared_buffers"] + at["work_mem"] - 1.5) ** 2
        io = 0.1 * at["effective_io_concurrency"] * (1 - at["shared_buffers"])
        return io - loss - swap - (0.05 if values["jit"] == "on" else 0.0)

    return Surface(settings, FORMULA_DEFAULT, log)


@cache
def measured() -> Surface:
    """A smooth surface through real runs."""
    settings = space.read(MEASURED_LINES)
    positions, logs = real_runs(settings)
    fitted = _fitted(positions, logs, smoothing(positions, logs))

    def log(values: Values) -> float:
        return float(fitted([[each.position(values[each.name]) for each in settings.dimensions]])[0])

    return Surface(settings, MEASURED_DEFAULT, log)


def real_runs(settings: Space) -> tuple[np.ndarray, np.ndarray]:
    """(runs, settings) positions from 0 to 1, and the log TPS of each run, without the slow changes of the machine: the
    median of the runs of its block and of both neighbours is subtracted."""
    with MEASURED.open() as file:
        rows = list(csv.DictReader(file))
    positions = [[each.position(_value(each, row[each.name])) for each in settings.dimensions] for row in rows]
    logs, blocks = np.log([float(row["tps"]) for row in rows]), np.array([int(row["block"]) for row in rows])
    around = [float(np.median(logs[abs(blocks - block) <= 1])) for block in blocks]
    return np.array(positions), logs - np.array(around)


def _value(dimension: Dimension, text: str) -> Value:
    return text if dimension.kind == "choice" else float(text)


def smoothing(positions: np.ndarray, logs: np.ndarray) -> float:
    """The smoothing that predicts every fifth run from the others with the smallest squared error."""
    return min(SMOOTHINGS, key=lambda candidate: _error(positions, logs, candidate))


def _error(positions: np.ndarray, logs: np.ndarray, candidate: float) -> float:
    fold = np.arange(len(logs)) % FOLDS
    left_out = [
        _fitted(positions[fold != number], logs[fold != number], candidate)(positions[fold == number])
        - logs[fold == number]
        for number in range(FOLDS)
    ]
    return float(np.mean(np.concatenate(left_out) ** 2))


def _fitted(positions: np.ndarray, logs: np.ndarray, smoothing: float) -> RBFInterpolator:
    return RBFInterpolator(positions, logs, kernel="thin_plate_spline", smoothing=smoothing)


SURFACES: dict[str, Callable[[], Surface]] = {"formula": formula, "measured": measured}
