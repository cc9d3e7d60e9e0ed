"""What a number of runs can find, and how many are needed (alpha .05, power .8), from the spread of log values."""

from __future__ import annotations

import math

from apps.results.stats.model import NO_SPREAD, POINTS_ONLY_BELOW, ratio_percent

ALPHA, POWER = 0.05, 0.8
# An effect of so many standard deviations needs no more than the three runs without which there is no verdict.
_PLAIN_EFFECT = 3.3


def mde_percent(s: float, n_a: int, n_b: int, *, paired: bool = False) -> float:
    """The minimum detectable effect; `s` is of the differences when paired, else within each arm."""
    from statsmodels.stats.power import TTestIndPower, TTestPower

    if s < NO_SPREAD:
        return 0.0
    if paired:
        effect = TTestPower().solve_power(nobs=n_a, alpha=ALPHA, power=POWER)
    else:
        effect = TTestIndPower().solve_power(nobs1=n_a, ratio=n_b / n_a, alpha=ALPHA, power=POWER)
    return ratio_percent(float(effect) * s)


def runs_needed(s: float, delta: float, *, paired: bool = False) -> int:
    """Runs of each arm (pairs, when paired) that find a difference of `delta`, a fraction; at least 3."""
    from statsmodels.stats.power import TTestIndPower, TTestPower

    if s < NO_SPREAD or math.log1p(delta) / s > _PLAIN_EFFECT:
        return POINTS_ONLY_BELOW
    test = TTestPower() if paired else TTestIndPower()
    found = test.solve_power(effect_size=math.log1p(delta) / s, alpha=ALPHA, power=POWER)
    return max(POINTS_ONLY_BELOW, math.ceil(float(found)))


def noise_floor_percent(s: float, n: int) -> float:
    """The largest difference that two arms of the same thing show in 95 % of campaigns with n runs each (A/A)."""
    from scipy import stats

    return ratio_percent(float(stats.t.ppf(1 - ALPHA / 2, 2 * n - 2)) * s * math.sqrt(2 / n))
