"""Looks at a comparison while its campaign goes on, and what each may cost: Lan and DeMets' alpha spending.

Looking after each block at 5 % finds a difference in one of six campaigns where there is none. So alpha is spent bit
by bit, as a function of the share of blocks that have run, and an interval is as wide as its look may be (Jennison and
Turnbull's repeated confidence intervals): they hold together at all looks, whatever made somebody stop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from stats.comparison.pairs import Estimate, judged, paired
from stats.model import POINTS_ONLY_BELOW, Comparison, Floats, Metric, Observation, logs

ALPHA = 0.05  # of the 95 % interval; equivalence is asked of a 90 % one, which has twice as much to spend
SPENDING = {"obrien_fleming": "O'Brien and Fleming's type", "pocock": "Pocock's type"}
CERTAIN = ("better", "worse", "equivalent")
# Their error of a share of 5 % is 0.0003; fewer than these tell too little of what may be spent at one look.
PATHS, FEW_PATHS = 400_000, 50
_SEED = 20130901
# An interval that reaches beyond ten times either way says nothing, and its ends would overflow.
_SAYS_NOTHING = math.log(10)


@dataclass(frozen=True)
class Spent:
    """What looks up to one at so many `blocks` have spent of alpha and of twice alpha."""

    blocks: int
    alpha: float
    alpha_90: float


@dataclass(frozen=True)
class Look:
    """`nominal_p` is what this look may call significant; `found` is None where that leaves nothing to say."""

    spent: Spent
    nominal_p: float
    found: Comparison | None


def spent(kind: str, alpha: float, fraction: float) -> float:
    """Alpha that may be spent when this fraction of all blocks has run (Lan and DeMets 1983). A key of SPENDING."""
    from scipy import stats

    t = min(1.0, fraction)
    if kind == "pocock":
        return alpha * math.log1p((math.e - 1) * t)
    return 4 * float(stats.norm.sf(stats.norm.isf(alpha / 4) / math.sqrt(t)))  # half of alpha on each side


def nominal(blocks: Sequence[int], alphas: Sequence[float]) -> float:
    """The two-sided p of a paired t test below which the last of these looks is significant; `alphas` are spent up to
    each of them. Exact for few blocks, too, where the bounds of the normal distribution stop falsely in 5.8 %."""
    return _nominals(tuple(blocks), tuple(alphas))[-1]


@lru_cache(maxsize=256)
def _nominals(blocks: tuple[int, ...], alphas: tuple[float, ...]) -> tuple[float, ...]:
    """Of every look: t of campaigns without any difference, simulated; as many as may be are stopped at each look.

    Where these are too few to tell, what is to be spent is the p itself: that never spends more.
    """
    from scipy import stats

    campaigns = _Campaigns()
    stopped, found, earlier = 0, [], 0.0
    for count, alpha in zip(blocks, alphas, strict=True):
        campaigns.go_on(count)
        may_stop = int(alpha * PATHS) - stopped
        t = float(stats.t.isf(max(0.0, alpha - earlier) / 2, count - 1))
        if may_stop >= FEW_PATHS:
            t = min(t, campaigns.largest(may_stop))
        found.append(2 * float(stats.t.sf(t, count - 1)))
        stopped += campaigns.stop(t)
        earlier = alpha
    return tuple(found)


class _Campaigns:
    """PATHS campaigns of the same two things: the mean of their differences, and the sum of squares around it."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(_SEED)
        self._count, self._mean, self._squares = 0, np.zeros(PATHS), np.zeros(PATHS)
        self._going_on = np.ones(PATHS, dtype=bool)

    def go_on(self, count: int) -> None:
        """Up to so many blocks (Chan's update of mean and squares by those that are new)."""
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
        """The |t| that so many of those that go on exceed."""
        return float(np.partition(self._t, PATHS - many - 1)[PATHS - many - 1])

    def stop(self, t: float) -> int:
        """How many stop because they exceed t."""
        stops = self._going_on & (self._t > t)
        self._going_on &= ~stops
        return int(stops.sum())


def look(
    rows: Sequence[Observation],
    names: tuple[str, str],
    metric: Metric,
    delta: float,
    *,
    spending: str,
    planned: int,
    before: Sequence[Spent],
) -> Look | None:
    """Level names[1] against names[0] in the blocks that have both; None where that is too few, or no more than before.

    `planned`: blocks at most; when there are more of them than a look before thought, what was spent stays spent.
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
    looks = [*before, now]
    p = nominal([one.blocks for one in looks], [one.alpha for one in looks])
    p_90 = nominal([one.blocks for one in looks], [one.alpha_90 for one in looks])
    found = widened(paired(log_a, log_b), p, p_90)
    return Look(now, p, judged(log_a, log_b, found, metric, delta, names) if found else None)


def _pairs(rows: Sequence[Observation], names: tuple[str, str]) -> tuple[Floats, Floats]:
    """Logs of both levels, block by block; where a level ran twice in a block, their mean."""
    cells: dict[int, dict[str, list[float]]] = {}
    for row in rows:
        if row.level in names:
            cells.setdefault(row.block, {}).setdefault(row.level, []).append(row.value)
    whole = [cells[block] for block in sorted(cells) if len(cells[block]) == len(names)]
    first, second = ([float(logs(cell[name]).mean()) for cell in whole] for name in names)
    return np.array(first), np.array(second)


def widened(found: Estimate, p: float, p_90: float) -> Estimate | None:
    """Its intervals as wide as looks of these nominal p make them; None where they would say nothing."""
    from scipy import stats

    method = f"{found.method}, adjusted for interim analyses"
    if found.se is None or found.df is None:
        return replace(found, method=method)
    half, half_90 = (float(stats.t.isf(each / 2, found.df)) * found.se for each in (p, p_90))
    if not half < _SAYS_NOTHING:
        return None
    ends, ends_90 = ((found.difference - one, found.difference + one) for one in (half, half_90))
    return replace(found, interval=ends, interval_90=ends_90, p=None, se=None, method=method)
