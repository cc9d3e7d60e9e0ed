"""Within one run: where its steady state begins, whether it drifts afterwards, dips and stalls.

Samples are at a fixed interval (1 s unless said). They describe a run; they are never replicates of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stats.model import Floats

Samples = Sequence[float] | Floats
Flags = Sequence[bool] | NDArray[np.bool_]
BATCH = 5
# Accepting a little above the minimum keeps noise in the tail from cutting away half of a run.
NEAR_MINIMUM = 1.2
STALL_BELOW = 0.1
MOST_FITTED = 600


@dataclass(frozen=True)
class WarmUp:
    """`cut`: samples to leave out; `detected` of them by the rule; `steady` False when half the run was not enough."""

    cut: int
    detected: int
    steady: bool
    mean: float


@dataclass(frozen=True)
class Trend:
    """Theil-Sen slope after the warm-up, as change over the whole span in percent of the median."""

    total_percent: float
    low_percent: float
    high_percent: float
    flagged: bool


@dataclass(frozen=True)
class Dips:
    """`lost_fraction` of the work that the median rate would have done; `stalled` samples below a tenth of it, which
    stand in these `stalls`: places of the first one and of the one after the last."""

    lost_fraction: float
    stalled: int
    stalls: tuple[tuple[int, int], ...] = ()


def mser_cut(means: Sequence[float]) -> int:
    """Batches to drop: the smallest d up to half of them whose MSER is at most 1.2 times the least."""
    values = np.asarray(means, dtype=np.float64)
    m = len(values)
    if m < 2:
        return 0
    centred = values - values.mean()
    counts = np.arange(m, 0, -1)
    sums, squares = (np.cumsum(each[::-1])[::-1] for each in (centred, centred**2))
    mser = (np.maximum(0.0, squares - sums**2 / counts) / counts**2)[: m // 2 + 1]
    rounding = 1e-12 * float(squares[0]) / m**2  # of the arithmetic: a tail without any spread has an MSER of nil
    return int(np.flatnonzero(mser <= NEAR_MINIMUM * mser.min() + rounding)[0])


def warm_up(values: Samples, *, configured: int = 0, masked: Flags | None = None, batch: int = BATCH) -> WarmUp:
    """Find the warm-up in samples; `masked` ones (logged checkpoints) are left out of the search, not of the mean."""
    samples = np.asarray(values, dtype=np.float64)
    starts, means = _batches(
        samples, np.zeros(len(samples), bool) if masked is None else np.asarray(masked, bool), batch
    )
    d = mser_cut(means)
    steady = len(means) > 1 and d < len(means) // 2
    detected = starts[d] if starts else 0
    cut = min(max(configured, detected), max(0, len(samples) - 1))
    return WarmUp(cut, detected, steady, float(np.nanmean(samples[cut:])) if len(samples) else float("nan"))


def _batches(samples: Floats, masked: np.ndarray, batch: int) -> tuple[list[int], list[float]]:
    starts, means = [], []
    for start in range(0, len(samples) - batch + 1, batch):
        kept = samples[start : start + batch][~masked[start : start + batch]]
        kept = kept[np.isfinite(kept)]
        if kept.size:
            starts.append(start)
            means.append(float(kept.mean()))
    return starts, means


def trend(values: Samples, delta: float) -> Trend | None:
    """The trend of steady samples, flagged when its 95 % interval excludes 0 and it adds up to `delta` or more.

    Long runs are fitted by means of as many samples as leave MOST_FITTED. None when there is nothing to fit: fewer than
    three samples, or a median of 0.
    """
    from scipy import stats

    samples = np.asarray(values, dtype=np.float64)
    samples = _fewer(samples[np.isfinite(samples)])
    median = float(np.median(samples)) if samples.size else 0.0
    if samples.size < 3 or median <= 0:
        return None
    slope, _, low, high = stats.theilslopes(samples, alpha=0.95)
    total, least, most = (100 * float(one) * (samples.size - 1) / median for one in (slope, low, high))
    return Trend(total, least, most, bool((least > 0 or most < 0) and abs(total) >= 100 * delta))


def _fewer(samples: Floats) -> Floats:
    """Theil and Sen's slope is of all pairs: of a day of seconds they are four billions."""
    each = math.ceil(samples.size / MOST_FITTED) if samples.size else 1
    means: Floats = samples[: samples.size // each * each].reshape(-1, each).mean(axis=1)
    return means


def dips(values: Samples) -> Dips:
    """Work lost below the median rate, and samples that stalled. A missing sample is neither."""
    samples = np.asarray(values, dtype=np.float64)
    present = samples[np.isfinite(samples)]
    median = float(np.median(present)) if present.size else 0.0
    if median <= 0:
        return Dips(0.0, 0)
    lost = float(np.maximum(0.0, median - present).sum() / (median * present.size))
    still = np.isfinite(samples) & (samples < STALL_BELOW * median)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(np.int8)))
    return Dips(lost, int(still.sum()), tuple((int(one), int(two)) for one, two in edges.reshape(-1, 2)))


def dip_depth(values: Samples, inside: Flags) -> float | None:
    """1 - median inside / median outside of a window such as a checkpoint; None when either side is empty."""
    samples, within = np.asarray(values, dtype=np.float64), np.asarray(inside, bool)
    samples, within = samples[np.isfinite(samples)], within[np.isfinite(samples)]
    if not within.any() or within.all() or np.median(samples[~within]) <= 0:
        return None
    return float(1 - np.median(samples[within]) / np.median(samples[~within]))
