"""Drift of a campaign: whether figures rise or fall with the order in which the runs were made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.wording import percent
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
from stats.pairs import t_estimate


@dataclass(frozen=True)
class Drift:
    """Change per run of the order, beside the levels' own differences. None where the runs are too few to tell.
    `negligible`: all that the interval allows is less than half of the margin over the whole campaign."""

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
            f"{self.per_run_percent:+.3f} % per run (95 % CI {low:+.3f} to {high:+.3f} %), "
            f"{percent(self.total_percent)} over {self.n} runs"
        )
        if self.banner:
            return f"Results drifted during the campaign: {size}. Check what changed on the host."
        if self.negligible:
            return f"No relevant drift: {size}."
        return f"Drift is inconclusive: {size}."


def drift(rows: Sequence[Observation], delta: float) -> Drift:
    """Least squares of logs on level and order; the banner is for a drift of p < .05 and half of `delta` or more."""
    unknown = Drift(len(rows), None, None, None, None, banner=False, negligible=False)
    levels = list(by_level(rows))
    orders = np.array([row.order for row in rows], dtype=np.float64)
    df = len(rows) - len(levels) - 1
    if df < 1 or np.ptp(orders) == 0:
        return unknown
    slope, se, s = _slope(rows, levels, orders, df)
    if not np.isfinite(se):
        return unknown
    found = t_estimate(slope, se, df, s, "least squares on logs, level and order")
    span = float(np.ptp(orders))
    total = ratio_percent(slope * span)
    banner = found.p is not None and found.p < 0.05 and abs(total) >= 50 * delta
    negligible = all(abs(bound * span) < math.log1p(delta / 2) for bound in found.interval)
    return Drift(len(rows), ratio_percent(slope), ratio_interval(*found.interval), found.p, total, banner, negligible)


def _slope(rows: Sequence[Observation], levels: list[str], orders: np.ndarray, df: int) -> tuple[float, float, float]:
    """Slope, its standard error and s; an infinite error when the order cannot be told from the levels. What is left of
    both within the levels has the slope of the whole model (Frisch, Waugh and Lovell)."""
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
