"""Shifts by ranks, for runs with heavy tails or two modes: Hodges-Lehmann estimates with the intervals of their tests.

Without blocks the test is Mann and Whitney's. Within blocks it is a signed-rank test whose ranks grow up to half of the
blocks only (winsorized): the difference of a slow and a usual run has a random sign, and would have the largest rank.
An interval holds the shifts that the test does not reject, so it always agrees with p. With ties both are conservative.

Several levels against one baseline share the error probability as in Steel's test: by the largest of correlated
normal statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stats.comparison.family import critical, joint_coverage
from stats.model import Floats, Interval

MOST_EXACT = 50  # runs of each level, or blocks; the distributions of more are normal
_NORMAL = 1e6  # degrees of freedom that make a t distribution a normal one
_DIGITS = 13  # shifts of logs that agree to so many decimal places are the same


@dataclass(frozen=True)
class Share:
    """The part of the error probability that one of several comparisons may use: `alpha` for the 95 % interval,
    `alpha_90` for the 90 % one. `adjusted`: the p of one comparison -> that of all."""

    alpha: float
    alpha_90: float
    adjusted: Callable[[float], float]


@dataclass(frozen=True)
class Shift:
    """A shift of logs, its 95 % and 90 % intervals, and the p of no shift."""

    difference: float
    interval: Interval
    interval_90: Interval
    p: float


def of_many(count: int) -> Share:
    """The share of one of several comparisons (Bonferroni)."""
    return Share(0.05 / count, 0.10 / count, lambda p: min(1.0, count * p))


def of_baseline(shared: Sequence[float]) -> Share:
    """The share of one of all comparisons with a baseline. `shared`: as for stats.comparison.family.critical."""
    from scipy import special

    def alpha(level: float) -> float:
        return 2 * float(special.ndtr(-critical(tuple(shared), _NORMAL, level)))

    def adjusted(p: float) -> float:
        return 1 - joint_coverage(-float(special.ndtri(max(p, 1e-300) / 2)), shared, _NORMAL)

    return Share(alpha(0.95), alpha(0.90), adjusted)


def can_reject(n_a: int, n_b: int, share: Share, *, blocked: bool) -> bool:
    """Whether the smallest p of these numbers of runs is small enough for an interval that ends."""
    orders = 2**n_a if blocked else math.comb(n_a + n_b, n_a)
    return 2 / orders <= share.alpha


def between(log_a: Floats, log_b: Floats, share: Share) -> Shift:
    """The shift of b against a, without blocks."""
    changes = np.sort(np.subtract.outer(log_b, log_a).ravel())
    return _shift(changes, lambda gap: len(changes) - 2 * gap, _pair_tails(len(log_a), len(log_b)), share)


def within_blocks(log_a: Floats, log_b: Floats, share: Share) -> Shift:
    """The shift of b against a, whose places are blocks."""
    differences = log_b - log_a
    first, second = np.triu_indices(len(differences))
    changes = np.unique(np.round((differences[first] + differences[second]) / 2, _DIGITS))
    beyond = 1.0 + float(changes[-1] - changes[0])
    ends = np.concatenate([[changes[0] - beyond], changes, [changes[-1] + beyond]])
    scores = _scores(len(differences))

    def statistic(gap: int) -> int:
        shifted = differences - (ends[gap] + ends[gap + 1]) / 2
        ranks = np.argsort(np.argsort(np.abs(shifted)))
        return int((np.sign(shifted) * scores[ranks]).sum())

    return _shift(changes, statistic, _signed_tails(len(differences)), share)


def _shift(changes: Floats, statistic: Callable[[int], int], tails: Floats, share: Share) -> Shift:
    """`changes`: shifts at which the statistic changes, in ascending order. `statistic`: gap -> its value there; gap 0
    is before the first change. It never rises. `tails`: the probabilities of each value from 0 on, or a larger one."""
    centre, wide, narrow = (
        _interval(changes, statistic, size)
        for size in (0, _largest_accepted(tails, share.alpha), _largest_accepted(tails, share.alpha_90))
    )
    around_zero = range(int(np.searchsorted(changes, 0.0, "left")), int(np.searchsorted(changes, 0.0, "right")) + 1)
    high, low = statistic(around_zero[0]), statistic(around_zero[-1])
    size = 0 if high > 0 > low else min(abs(high), abs(low))
    p = share.adjusted(min(1.0, 2 * float(tails[size])))
    return Shift((centre[0] + centre[1]) / 2, wide, narrow, p)


def _largest_accepted(tails: Floats, alpha: float) -> int:
    """The largest size of a statistic that a two-sided test at this level does not reject."""
    return int(np.argmax(2 * tails <= alpha)) - 1


def _interval(changes: Floats, statistic: Callable[[int], int], size: int) -> Interval:
    """The shifts whose statistic has at most this size."""
    low, high = (_first_gap(statistic, len(changes), most) for most in (size, -size - 1))
    return float(changes[low - 1]), float(changes[high - 1])


def _first_gap(statistic: Callable[[int], int], last: int, most: int) -> int:
    """The first gap whose statistic is at most this."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if statistic(middle) <= most else (middle + 1, high)
    return low


def _scores(n: int) -> Floats:
    return np.minimum(np.arange(1, n + 1), n // 2)


@lru_cache(maxsize=64)
def _signed_tails(n: int) -> Floats:
    """Of the sum of signed scores, each sign with probability 1/2."""
    scores = _scores(n).astype(int)
    most = int(scores.sum())
    if n > MOST_EXACT:
        return _normal_tails(most, float((scores**2).sum()))
    shares = np.ones(1)
    for score in scores:
        wider = np.zeros(len(shares) + 2 * score)
        wider[: len(shares)] += shares / 2
        wider[2 * score :] += shares / 2
        shares = wider
    return np.cumsum(shares[::-1])[::-1][most:]


@lru_cache(maxsize=256)
def _pair_tails(n_a: int, n_b: int) -> Floats:
    """Of the number of pairs with a larger b less those with a larger a."""
    from scipy import special

    pairs = n_a * n_b
    if max(n_a, n_b) > MOST_EXACT:
        return _normal_tails(pairs, pairs * (n_a + n_b + 1) / 3)
    # Orders by their number of such pairs: a Gaussian binomial coefficient, whose lower half is enough by symmetry.
    counts = np.zeros(pairs + 1)
    counts[0] = 1.0
    for k in range(1, n_a + 1):
        counts[n_b + k :] -= counts[: max(0, len(counts) - n_b - k)].copy()
        for start in range(k):
            counts[start::k] = np.cumsum(counts[start::k])
    lower = np.cumsum(counts[: pairs // 2 + 1]) / special.comb(n_a + n_b, n_a)
    # A difference of at least `size` is at most (pairs - size) / 2 pairs of the other kind.
    return lower[(pairs - np.arange(pairs + 1)) // 2]


def _normal_tails(most: int, variance: float) -> Floats:
    """Corrected for continuity: the values are two apart."""
    from scipy import special

    return np.asarray(special.ndtr(-(np.arange(most + 1) - 1) / math.sqrt(variance)))
