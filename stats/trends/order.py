"""Drift of a campaign: whether figures rise or fall with the order in which the runs were made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.wording import percent, signed
from stats.model import (
    NO_SPREAD,
    Floats,
    Interval,
    Observation,
    by_level,
    logs,
    ratio_interval,
    ratio_percent,
)
from stats.trends.dependence import Averaged, averaged

# Noise of runs close in time: variances in units of a single run's, from none to 300 times as much.
_VARIANCES: Floats = np.concatenate([[0.0], np.geomspace(0.03, 300, 24)])
_AUTOCORRELATIONS = (0.5, 0.8, 0.95)
# Fewer runs cannot show how they resemble their neighbours, only how blocks differ.
_FEWEST_FOR_NEIGHBOURS = 12
# Degrees of freedom lost to the unknown size of the noise. Without this, 8 % of campaigns without drift are said to
# drift (2 levels in 5 blocks).
_DF_LOST = 2
# Of more runs, means of neighbours: the time for a fit grows with the cube of their number.
_MOST_FITTED = 100


@dataclass(frozen=True)
class OrderTrend:
    """Change per run in the order, adjusted for the levels. None if there are too few runs. `negligible`: the whole
    interval is within half of the margin over the whole campaign."""

    n: int
    per_run_percent: float | None
    interval: Interval | None
    p: float | None
    total_percent: float | None
    banner: bool
    negligible: bool

    def sentence(self) -> str:
        """Whether the figures drifted while the campaign ran, in one sentence."""
        if self.per_run_percent is None or self.interval is None or self.total_percent is None:
            return "Not enough runs to test for drift."
        low, high = self.interval
        size = (
            f"{_small(self.per_run_percent)} % per run (95 % CI {_small(low)} to {_small(high)} %), "
            f"{percent(self.total_percent)} over {self.n} runs"
        )
        if self.banner:
            return f"Results drifted during the campaign: {size}. Check what changed on the host."
        if self.negligible:
            return f"No relevant drift: {size}."
        return f"Drift is inconclusive: {size}."


def _small(percent_: float) -> str:
    """A signed percentage of one run, which is often far below 1: two significant digits, such as -0.032."""
    if abs(percent_) < 1e-6:
        return signed(0.0)
    return f"{percent_:+.2g}" if abs(percent_) < 9.95 else signed(percent_)


def order_trend(rows: Sequence[Observation], delta: float) -> OrderTrend:
    """The slope of logs over the order of running, beside the levels; the banner needs p < .05 and half of `delta`.

    Runs of one block resemble each other, and so do neighbours in time. Both make a trend by chance, so the interval
    averages over how large such noise may be, weighted by its restricted likelihood.
    """
    unknown = OrderTrend(len(rows), None, None, None, None, banner=False, negligible=False)
    levels = list(by_level(rows))
    orders = np.array([row.order for row in rows], dtype=np.float64)
    df = len(rows) - len(levels) - 1
    if df < 1 or np.ptp(orders) == 0:
        return unknown
    slope, se, s = _slope(rows, levels, orders, df)
    if not np.isfinite(se):
        return unknown
    if s < NO_SPREAD:
        slope = slope if abs(slope) > NO_SPREAD else 0.0
        p, interval = None, (slope, slope)
    else:
        averaged = _averaged_slope(rows, levels, orders)
        slope, p, interval = averaged.estimate, averaged.p, averaged.interval()
    span = float(np.ptp(orders))
    total = ratio_percent(slope * span)
    banner = p is not None and p < 0.05 and abs(total) >= 50 * delta
    negligible = all(abs(bound * span) < math.log1p(delta / 2) for bound in interval)
    return OrderTrend(len(rows), ratio_percent(slope), ratio_interval(*interval), p, total, banner, negligible)


def _averaged_slope(rows: Sequence[Observation], levels: list[str], orders: Floats) -> Averaged:
    place = {level: number for number, level in enumerate(levels)}
    level = np.array([place[row.level] for row in rows], dtype=np.intp)
    block = np.array([row.block for row in rows])
    y, x = logs([row.value for row in rows]), orders - orders.mean()
    design = np.eye(len(levels))[level]
    if len(rows) > _MOST_FITTED:
        y, x, orders, block = _neighbours(_within(y, level), _within(x, level), orders, block)
        design = np.ones((len(y), 1))
    k = design.shape[1]
    # Contrasts that the levels do not enter: their likelihood is the restricted one.
    contrasts = np.linalg.qr(design, mode="complete")[0][:, k:]
    df = len(y) - k - 1
    similar = [(block[:, None] == block[None, :]).astype(np.float64)]
    if len(y) >= _FEWEST_FOR_NEIGHBOURS:
        apart = np.abs(orders[:, None] - orders[None, :])
        similar += [phi**apart for phi in _AUTOCORRELATIONS]
    fits = [_fits(contrasts.T @ each @ contrasts, contrasts.T @ x, contrasts.T @ y, df) for each in similar]
    # Half of the prior for blocks, half for neighbours. Few blocks say little about how much they differ, so that large
    # differences must stay likely.
    prior = np.gradient(_VARIANCES) / (1 + _VARIANCES)
    widths = [prior, *[prior / len(_AUTOCORRELATIONS)] * (len(similar) - 1)]
    likelihood, estimates, errors = (np.concatenate(column) for column in zip(*fits, strict=True))
    lost = _DF_LOST if len(np.unique(block)) > 1 else 0
    return averaged(likelihood, estimates, errors, max(1, df - lost), np.concatenate(widths))


def _neighbours(y: Floats, x: Floats, orders: Floats, block: np.ndarray) -> tuple[Floats, Floats, Floats, np.ndarray]:
    """Means of neighbours in the order of running, each counted as of the block of its first run."""
    by_order = np.argsort(orders, kind="stable")
    starts = np.arange(0, len(y), math.ceil(len(y) / _MOST_FITTED))
    counts = np.diff(np.append(starts, len(y)))
    y, x, orders = (np.add.reduceat(each[by_order], starts) / counts for each in (y, x, orders))
    return y, x, orders, block[by_order][starts]


def _fits(similar: Floats, x: Floats, y: Floats, df: int) -> tuple[Floats, Floats, Floats]:
    """Restricted log likelihood, slope and its standard error for each of _VARIANCES of noise with this covariance."""
    values, vectors = np.linalg.eigh(similar)
    variances = 1 + _VARIANCES[:, None] * np.maximum(values, 0.0)[None, :]
    x, y = vectors.T @ x, vectors.T @ y
    of_x = (x**2 / variances).sum(axis=1)
    slope = (x * y / variances).sum(axis=1) / of_x
    left = ((y - slope[:, None] * x) ** 2 / variances).sum(axis=1)
    likelihood = -(np.log(variances).sum(axis=1) + np.log(of_x) + df * np.log(left)) / 2
    return likelihood, slope, np.sqrt(left / df / of_x)


def _slope(rows: Sequence[Observation], levels: list[str], orders: np.ndarray, df: int) -> tuple[float, float, float]:
    """Slope, its standard error and s; an infinite error if order and levels cannot be separated. The residuals of both
    within the levels have the slope of the whole model (Frisch, Waugh and Lovell)."""
    place = {level: number for number, level in enumerate(levels)}
    level = np.array([place[row.level] for row in rows], dtype=np.intp)
    x, y = _within(orders - orders.mean(), level), _within(logs([row.value for row in rows]), level)
    spread = float(x @ x)
    if spread < 1e-9 * float(np.ptp(orders)) ** 2:
        return 0.0, float("inf"), 0.0
    slope = float(x @ y) / spread
    s = float(np.sqrt(((y - slope * x) ** 2).sum() / df))
    return slope, s / float(np.sqrt(spread)) if s >= NO_SPREAD else 0.0, s


def _within(values: Floats, level: np.ndarray) -> Floats:
    """Each less the mean of its level."""
    means: Floats = np.bincount(level, values) / np.bincount(level)
    left: Floats = values - means[level]
    return left
