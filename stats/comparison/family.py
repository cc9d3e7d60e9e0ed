"""Critical values of comparisons that hold together: with one baseline the two-sided largest t (Dunnett 1955), of all
pairs of levels the studentized range (Tukey).

Comparisons with one baseline have correlations that are products: given what the baseline's noise is, they are
independent. So the probability is an integral over that noise and over the spread, however many levels there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from stats.model import Floats

_SPREADS, _REACH, _STEPS = 48, 8.0, 161
# Closer to 1 than this a comparison's noise is the baseline's alone, and the integrand has a step.
_MOST_SHARED = 0.995
# Of simulations; 40 000 campaigns determine 5 % to within 0.1 %.
_CAMPAIGNS, _MOST_NUMBERS, _SEED = 40_000, 8_000_000, 20130901


@lru_cache(maxsize=512)
def critical(shared: tuple[float, ...], df: float, level: float) -> float:
    """The value that no |t| exceeds in a share `level` of campaigns without a difference.

    `shared`: of each comparison, the square root of the share of its variance that is the baseline's; two of them
    correlate by the product. With 5 runs of each it is the square root of a half.
    """
    from scipy import optimize, special

    low = float(special.stdtrit(df, (1 + level) / 2))
    high = float(special.stdtrit(df, 1 - (1 - level) / (2 * len(shared))))
    if len(shared) == 1:
        return low
    return float(optimize.brentq(lambda t: joint_coverage(t, shared, df) - level, 0.98 * low, 1.02 * high, xtol=1e-6))


def joint_coverage(t: float, shared: Sequence[float], df: float) -> float:
    """The probability that no |t| exceeds this one."""
    from scipy import special

    weights, spreads = _spreads(df)
    at = np.linspace(-_REACH, _REACH, _STEPS)
    density = np.exp(-(at**2) / 2)
    inside = np.ones((len(spreads), _STEPS))
    values, counts = np.unique(np.minimum(shared, _MOST_SHARED), return_counts=True)
    for value, count in zip(values, counts, strict=True):
        own = np.sqrt(1 - value**2)
        up = special.ndtr((t * spreads[:, None] - value * at) / own)
        down = special.ndtr((-t * spreads[:, None] - value * at) / own)
        inside *= (up - down) ** count
    return float(weights @ (inside @ density) / density.sum())


@lru_cache(maxsize=128)
def _spreads(df: float) -> tuple[Floats, Floats]:
    """Weights, and estimates of a standard deviation of 1 with this `df`, at the nodes of Gauss and Legendre."""
    from scipy import special

    nodes, weights = np.polynomial.legendre.leggauss(_SPREADS)
    probabilities = (nodes + 1) / 2
    return weights / 2, np.sqrt(special.chdtri(df, 1 - probabilities) / df)


@lru_cache(maxsize=2048)
def critical_of_pairs(levels: int, df: float, level: float) -> float:
    """The value that no |t| of any pair of this many levels exceeds in a share `level` of campaigns without a
    difference, if all levels have equally many runs."""
    from scipy import optimize, special

    low = float(special.stdtrit(df, (1 + level) / 2))
    high = float(special.stdtrit(df, 1 - (1 - level) / (levels * (levels - 1))))
    return float(
        optimize.brentq(lambda t: joint_coverage_of_pairs(t, levels, df) - level, 0.98 * low, 1.02 * high, xtol=1e-6)
    )


def joint_coverage_of_pairs(t: float, levels: int, df: float) -> float:
    """The probability that no |t| of any pair exceeds this one: that of all levels at most so far below the highest."""
    from scipy import special

    weights, spreads = _spreads(df)
    at = np.linspace(-_REACH, _REACH, _STEPS)
    density = np.exp(-(at**2) / 2)
    below = special.ndtr(at) - special.ndtr(at - math.sqrt(2) * t * spreads[:, None])
    return float(levels * (weights @ (below ** (levels - 1) @ density)) / density.sum())


def largest_of(correlation: Floats, df: float) -> Floats:
    """The largest |t| of many campaigns without a difference whose contrasts correlate so, in ascending order."""
    campaigns = max(2000, min(_CAMPAIGNS, _MOST_NUMBERS // len(correlation)))
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    largest = np.zeros(campaigns)
    for contrast in root @ _normal(campaigns, len(correlation)):
        np.maximum(largest, np.abs(contrast), out=largest)
    return np.sort(largest / _estimated_spreads(campaigns, df))


@lru_cache(maxsize=8)
def _normal(campaigns: int, contrasts: int) -> Floats:
    return np.random.default_rng(_SEED).standard_normal((contrasts, campaigns))


@lru_cache(maxsize=64)
def _estimated_spreads(campaigns: int, df: float) -> Floats:
    """Estimates of a standard deviation of 1 with this `df`."""
    return np.asarray(np.sqrt(np.random.default_rng([_SEED, 1]).chisquare(df, campaigns) / df))
