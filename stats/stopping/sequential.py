"""Interim analyses of a running campaign, and what each may cost: Lan and DeMets' alpha spending.

A test at 5 % after each block finds a difference in one of six campaigns without any. So alpha is spent step by step,
as a function of the share of blocks that have run, and each interval has the level of its test (Jennison and
Turnbull's repeated confidence intervals): they hold simultaneously at all interim analyses, for each reason to stop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from stats.comparison.pairs import Estimate, judged, paired
from stats.model import POINTS_ONLY_BELOW, Comparison, Floats, Metric, Observation, logs

ALPHA = 0.05  # of the 95 % interval; equivalence uses a 90 % one, which has twice as much to spend
SPENDING = {"obrien_fleming": "O'Brien and Fleming's type", "pocock": "Pocock's type"}
# Their error of a share of 5 % is 0.0003; with fewer, the share of one analysis is too imprecise.
PATHS, FEW_PATHS = 400_000, 50
_SEED = 20130901
# An interval beyond a factor of ten in either direction has no information, and its ends would overflow.
_SAYS_NOTHING = math.log(10)


@dataclass(frozen=True)
class Spent:
    """What the interim analyses up to this number of `blocks` have spent of alpha and of twice alpha."""

    blocks: int
    alpha: float
    alpha_90: float


@dataclass(frozen=True)
class InterimAnalysis:
    """One test during a campaign. `nominal_p`: the p below which it is significant. `comparison`: None if its interval
    would be too wide to say anything."""

    spent: Spent
    nominal_p: float
    comparison: Comparison | None


def spent(kind: str, alpha: float, fraction: float) -> float:
    """Alpha that may be spent when this fraction of all blocks has run (Lan and DeMets 1983). A key of SPENDING."""
    from scipy import special

    t = min(1.0, fraction)
    if kind == "pocock":
        return alpha * math.log1p((math.e - 1) * t)
    return 4 * float(special.ndtr(special.ndtri(alpha / 4) / math.sqrt(t)))  # half of alpha on each side


def nominal(blocks: Sequence[int], alphas: Sequence[float]) -> float:
    """The two-sided p of a paired t test below which the last of these analyses is significant; `alphas`: spent up to
    each of them. Exact for few blocks, too, where the bounds of the normal distribution stop falsely in 5.8 %."""
    return _nominals(tuple(blocks), tuple(alphas))[-1]


@lru_cache(maxsize=256)
def _nominals(blocks: tuple[int, ...], alphas: tuple[float, ...]) -> tuple[float, ...]:
    """The nominal p of every interim analysis, from simulated campaigns without a difference.

    If too few of them may stop at an analysis, its p is the alpha to be spent: that never spends more.
    """
    from scipy import special

    campaigns = _Campaigns()
    stopped, p_values, earlier = 0, [], 0.0
    for count, alpha in zip(blocks, alphas, strict=True):
        campaigns.go_on(count)
        may_stop = int(alpha * PATHS) - stopped
        t = abs(float(special.stdtrit(count - 1, max(0.0, alpha - earlier) / 2)))
        if may_stop >= FEW_PATHS:
            t = min(t, campaigns.largest(may_stop))
        p_values.append(2 * float(special.stdtr(count - 1, -t)))
        stopped += campaigns.stop(t)
        earlier = alpha
    return tuple(p_values)


class _Campaigns:
    """PATHS campaigns of the same two things: the mean of their differences, and the sum of squares around it."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(_SEED)
        self._count, self._mean, self._squares = 0, np.zeros(PATHS), np.zeros(PATHS)
        self._going_on = np.ones(PATHS, dtype=bool)

    def go_on(self, count: int) -> None:
        """Up to this number of blocks (Chan's update of mean and squares by the new ones)."""
        new, old = count - self._count, self._count
        mean = self._rng.standard_normal(PATHS) / math.sqrt(new)
        away = mean - self._mean
        self._mean += away * new / count
        self._squares += away**2 * old * new / count + (self._rng.chisquare(new - 1, PATHS) if new > 1 else 0.0)
        self._count = count

    @property
    def _t(self) -> Floats:
        error = np.sqrt(self._squares / (self._count - 1) / self._count)
        return np.where(self._going_on, np.abs(self._mean) / error, 0.0)

    def largest(self, many: int) -> float:
        """The |t| that `many` of the continuing campaigns exceed."""
        return float(np.partition(self._t, PATHS - many - 1)[PATHS - many - 1])

    def stop(self, t: float) -> int:
        """How many stop because they exceed t."""
        stops = self._going_on & (self._t > t)
        self._going_on &= ~stops
        return int(stops.sum())


def interim_analysis(
    rows: Sequence[Observation],
    names: tuple[str, str],
    metric: Metric,
    delta: float,
    *,
    spending: str,
    planned: int,
    before: Sequence[Spent],
) -> InterimAnalysis | None:
    """Compare level names[1] with names[0] in the blocks that have both; None if they are too few, or none is new.

    `planned`: blocks at most; if an earlier analysis expected fewer, what it spent stays spent.
    """
    log_a, log_b = _pairs(rows, names)
    count = len(log_a)
    if count < POINTS_ONLY_BELOW or (before and count <= before[-1].blocks):
        return None
    earlier = before[-1] if before else Spent(0, 0.0, 0.0)
    fraction = count / max(planned, count)
    now = Spent(
        count,
        max(earlier.alpha, spent(spending, ALPHA, fraction)),
        max(earlier.alpha_90, spent(spending, 2 * ALPHA, fraction)),
    )
    analyses = [*before, now]
    p = nominal([one.blocks for one in analyses], [one.alpha for one in analyses])
    p_90 = nominal([one.blocks for one in analyses], [one.alpha_90 for one in analyses])
    estimate = widened(paired(log_a, log_b), p, p_90)
    return InterimAnalysis(now, p, judged(log_a, log_b, estimate, metric, delta, names) if estimate else None)


def _pairs(rows: Sequence[Observation], names: tuple[str, str]) -> tuple[Floats, Floats]:
    """Logs of both levels, block by block; where a level ran twice in a block, their mean."""
    cells: dict[int, dict[str, list[float]]] = {}
    for row in rows:
        if row.level in names:
            cells.setdefault(row.block, {}).setdefault(row.level, []).append(row.value)
    whole = [cells[block] for block in sorted(cells) if len(cells[block]) == len(names)]
    first, second = ([float(logs(cell[name]).mean()) for cell in whole] for name in names)
    return np.array(first), np.array(second)


def widened(estimate: Estimate, p: float, p_90: float) -> Estimate | None:
    """Its intervals as wide as interim analyses with this nominal p make them; None where they would say nothing."""
    from scipy import special

    method = f"{estimate.method}, adjusted for interim analyses"
    if estimate.se is None or estimate.df is None:
        return replace(estimate, method=method)
    half, half_90 = (abs(float(special.stdtrit(estimate.df, each / 2))) * estimate.se for each in (p, p_90))
    if not half < _SAYS_NOTHING:
        return None
    ends, ends_90 = ((estimate.difference - one, estimate.difference + one) for one in (half, half_90))
    return replace(estimate, interval=ends, interval_90=ends_90, p=None, se=None, method=method)
