"""What a number of runs can find, and how many are needed (alpha .05, power .8), from the spread of log values.

All of it is of a t test that finds a difference when its interval excludes 0. One of a family of comparisons spends
less than .05: `alpha` is what is left for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from stats.model import NO_SPREAD, POINTS_ONLY_BELOW, Floats, ratio_percent

ALPHA, POWER = 0.05, 0.8
# No campaign is this long; a search for the runs that are needed has to end somewhere.
MOST_RUNS = 1_000_000
_STEP = 1.5  # from one number of runs to the next, before the numbers between are tested
_PARTS = 50  # of the distribution of an estimated variance; 1,000 parts change runs needed by less than 0.2 %


def power_of(errors: float, df: float, alpha: float = ALPHA) -> float:
    """The share of campaigns that detect a difference of this number of standard errors, in the right direction."""
    from scipy import special

    return 1 - float(special.nctdtr(df, errors, special.stdtrit(df, 1 - alpha / 2)))


@lru_cache(maxsize=1024)
def detectable_errors(df: float, alpha: float) -> float:
    """The smallest difference that a share POWER of the campaigns detects, in standard errors."""
    from scipy import optimize, special

    most = 2 * float(special.stdtrit(df, 1 - alpha / 2)) + 2
    return float(optimize.brentq(lambda errors: power_of(errors, df, alpha) - POWER, 0.0, most, xtol=1e-10))


def mde_percent(
    s: float, n_a: int, n_b: int, *, paired: bool = False, alpha: float = ALPHA, df: float | None = None
) -> float:
    """The minimum detectable effect; `s` is of the differences if paired, else within each arm. `df` of `s`, if
    it is estimated from more than these two arms."""
    if s < NO_SPREAD:
        return 0.0
    own = n_a - 1 if paired else n_a + n_b - 2
    error = s / math.sqrt(n_a) if paired else s * math.sqrt(1 / n_a + 1 / n_b)
    return ratio_percent(detectable_errors(own if df is None else df, alpha) * error)


def mean_power(errors: float, df: float, alpha: float, known_df: float) -> float:
    """The power, averaged over the plausible values of a variance that `known_df` degrees of freedom have estimated."""
    from scipy import special

    sizes = errors * _sizes(known_df)
    powers = 1 - special.nctdtr(df, sizes, special.stdtrit(df, 1 - alpha / 2))
    # Beyond the range of the distribution's numbers, the difference is always detected.
    return float(np.where(np.isnan(powers), 1.0, powers).mean())


@lru_cache(maxsize=256)
def _sizes(df: float) -> Floats:
    """Ratios of the estimated to the true standard deviation: the middles of equally likely parts."""
    from scipy import special

    middles = (np.arange(_PARTS) + 0.5) / _PARTS
    return np.asarray(np.sqrt(special.chdtri(df, 1 - middles) / df))


@lru_cache(maxsize=4096)
def runs_needed(
    s: float,
    delta: float,
    *,
    paired: bool = False,
    alpha: float = ALPHA,
    df_each: float | None = None,
    known_df: float | None = None,
) -> int:
    """Runs of each arm (pairs, if paired) that detect a difference of `delta`, a fraction; at least 3. `df_each`:
    degrees of freedom that each run of every arm after the first adds, if more than these two arms estimate `s`.
    `known_df`: those of `s` itself; with few of them the true variation may be larger, and more runs are needed."""
    if s < NO_SPREAD:
        return POINTS_ONLY_BELOW
    each = df_each or (1 if paired else 2)
    effect = math.log1p(delta) / (s if paired else s * math.sqrt(2))

    def enough(n: int) -> bool:
        errors, df = effect * math.sqrt(n), each * (n - 1)
        if known_df is not None:
            return mean_power(errors, df, alpha, known_df) >= POWER
        # Beyond the range of the distribution's numbers, it is always detected.
        return not power_of(errors, df, alpha) < POWER

    return fewest_runs(enough, POINTS_ONLY_BELOW, near=_runs_of_normal(effect, alpha))


def _runs_of_normal(effect: float, alpha: float) -> float:
    """The runs needed if the variation were known."""
    from scipy import special

    return float(((special.ndtri(POWER) - special.ndtri(alpha / 2)) / effect) ** 2)


def fewest_runs(enough: Callable[[int], bool], least: int, near: float = 0.0) -> int:
    """The smallest number from `least` on that is enough, as all larger ones are; about MOST_RUNS where none is.
    `near`: where to begin, because each number takes long to test."""
    low, high = least - 1, int(max(least, min(near, MOST_RUNS / 2)))
    while not enough(high) and high < MOST_RUNS:
        low, high = high, 1 + int(high * _STEP)
    if low < least:
        while (below := int(high / _STEP)) >= least and enough(below):
            high = below
        low = max(low, below)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def noise_floor_percent(s: float, n: int, df: float | None = None) -> float:
    """The largest difference that two arms of the same thing show in 95 % of campaigns with n runs each (A/A)."""
    from scipy import special

    t = float(special.stdtrit(2 * n - 2 if df is None else df, 1 - ALPHA / 2))
    return ratio_percent(t * s * math.sqrt(2 / n))
