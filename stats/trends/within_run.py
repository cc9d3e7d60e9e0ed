"""Within one run: where its steady state begins, whether it drifts afterwards, dips and stalls.

Samples are at a fixed interval (by default 1 s). They describe a run; they are never replicates of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.wording import percent, signed
from stats.model import Floats
from stats.trends.dependence import autocorrelated_effect, autocorrelated_shift, without_outliers

Samples = Sequence[float] | Floats
Flags = Sequence[bool] | NDArray[np.bool_]
BATCH = 5
# Accepting a little above the minimum keeps noise in the tail from cutting away half of a run.
NEAR_MINIMUM = 1.2
STALL_BELOW = 0.1
# Means of this number of samples follow the model of autocorrelation where single ones carry noise of their own; short
# runs have too few means for that.
FEWEST_MEANS, MOST_MEANS = 30, 600
# The end of a warm-up is searched for, so chance has several positions to imitate it: 5 % in all, by simulation.
ALPHA_OF_SEARCH = 0.0125


@dataclass(frozen=True)
class WarmUp:
    """`cut`: samples to leave out; `detected` of them by the rule; `steady` False when half the run was not enough.
    `suspected`: samples that the rule would cut, but that differ from the rest no more than its own fluctuations."""

    cut: int
    detected: int
    steady: bool
    mean: float
    suspected: int = 0


@dataclass(frozen=True)
class Trend:
    """Slope after the warm-up with its 95 % interval, as change over the whole span in percent of the median.

    `flagged`: the interval excludes 0, and the change is at least the margin. `negligible`: all of the interval is
    within the margin. With neither, the samples are too few or too noisy to say.
    """

    total_percent: float
    low_percent: float
    high_percent: float
    flagged: bool
    negligible: bool

    def sentence(self) -> str:
        """Whether the rate kept rising or falling after the warm-up, in one sentence."""
        low, high = signed(self.low_percent), signed(self.high_percent)
        size = f"{percent(self.total_percent)} (95 % CI {low} to {high} %) after the warm-up"
        if self.flagged:
            return f"The rate never became constant: {size}."
        return f"No relevant trend: {size}." if self.negligible else f"Trend is inconclusive: {size}."


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
    """Find the warm-up in samples; `masked` ones (logged checkpoints) are left out of the search, not of the mean.

    MSER finds its end. It is believed where the samples before it differ from those after it by more than
    autocorrelated noise would, or where what is left still rises or falls.
    """
    samples = np.asarray(values, dtype=np.float64)
    masks = np.zeros(len(samples), bool) if masked is None else np.asarray(masked, bool)
    starts, means = _batches(samples, masks, batch)
    d = mser_cut(means)
    steady = len(means) > 1 and d < len(means) // 2
    detected, suspected = starts[d] if starts else 0, 0
    if len(means) > 1 and detected and not _is_warming(samples, masks, detected, steady):
        detected, suspected, steady = 0, detected, True
    cut = min(max(configured, detected), max(0, len(samples) - 1))
    mean = float(np.nanmean(samples[cut:])) if len(samples) else float("nan")
    return WarmUp(cut, detected, steady, mean, suspected)


def _is_warming(samples: Floats, masked: np.ndarray, detected: int, steady: bool) -> bool:
    starts, means = _batches(samples, masked, _batch_size(len(samples)))
    values = np.asarray(means)
    positions = [sum(start < detected for start in starts)]
    if not steady:
        positions.append(3 * len(values) // 4)  # it may have settled after half of the run
    shifts = [autocorrelated_shift(values, before) for before in positions]
    if any(shift is None or shift.p < ALPHA_OF_SEARCH for shift in shifts):
        return True
    if steady:
        return False
    slope = autocorrelated_effect(values, np.arange(len(values), dtype=np.float64))
    return slope is not None and slope.p < ALPHA_OF_SEARCH


def _batch_size(samples: int) -> int:
    """Samples of each mean: BATCH, fewer in short runs, more in long ones."""
    return max(1, min(BATCH, samples // FEWEST_MEANS), math.ceil(samples / MOST_MEANS))


def _batches(samples: Floats, masked: np.ndarray, batch: int) -> tuple[list[int], list[float]]:
    starts, means = [], []
    for start in range(0, len(samples) - batch + 1, batch):
        unmasked = samples[start : start + batch][~masked[start : start + batch]]
        unmasked = unmasked[np.isfinite(unmasked)]
        if unmasked.size:
            starts.append(start)
            means.append(float(unmasked.mean()))
    return starts, means


def trend(values: Samples, delta: float) -> Trend | None:
    """The trend of steady samples, its interval as wide as their autocorrelation makes it.

    Least squares with autocorrelated noise, on means of neighbours; means far from Theil and Sen's line are moved
    closer. None if there is nothing to fit: fewer than five samples, or a median of 0.
    """
    from scipy import stats

    samples = np.asarray(values, dtype=np.float64)
    samples = samples[np.isfinite(samples)]
    median = float(np.median(samples)) if samples.size else 0.0
    if samples.size < 5 or median <= 0:
        return None
    means = _means(samples, _batch_size(samples.size))
    x = np.arange(means.size, dtype=np.float64)
    robust = stats.theilslopes(means, x)
    line = robust.intercept + robust.slope * x
    effect = autocorrelated_effect(line + without_outliers(means - line), x)
    slope = effect.estimate if effect else float(robust.slope)
    low, high = effect.interval() if effect else (slope, slope)
    total, least, most = (100 * float(one) * (means.size - 1) / median for one in (slope, low, high))
    margin = 100 * delta
    flagged = (least > 0 or most < 0) and abs(total) >= margin
    return Trend(total, least, most, flagged, negligible=-margin < least and most < margin)


def _means(samples: Floats, each: int) -> Floats:
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
