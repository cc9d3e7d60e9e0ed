"""Comparisons that somebody could see before they decided to stop or to go on, without a rule planned for it.

A confidence sequence holds at all numbers of runs at once, so it holds whatever made somebody stop: the mixture t
martingale of Lai (1976), with a normal prior on the effect in units of its noise (Rouder et al. 2009; Wang and Ramdas
2025). The planned end of a campaign keeps its 5 %. By simulation, looks before or after it
add 1 % at most (up to 40 blocks).
"""

from __future__ import annotations

import math
from dataclasses import replace

from stats.model import NO_SPREAD, Comparison, decide, ratio_interval, ratio_percent
from stats.power import ALPHA, POWER, errors_found, power_of

SPENT = 0.04  # of unplanned looks, all together
PRIOR = 3.0  # variance of the effect: small numbers of runs already say something, large ones little less
# An interval that reaches beyond ten times either way says nothing.
_SAYS_NOTHING = math.log(10)
_MOST_RUNS = 1_000_000


def critical_t(n: int, df: float, alpha: float = SPENT) -> float:
    """The |t| of `n` runs that a share `alpha` of campaigns without a difference exceeds at any n at most; infinite for
    so few runs that none does."""
    growth = 1 + n * PRIOR
    ratio = (math.sqrt(growth) / alpha) ** (2 / (df + 1))
    return math.sqrt(df * (ratio - 1) / (1 - ratio / growth)) if ratio < growth else math.inf


def at_unplanned_look(found: Comparison) -> Comparison:
    """The comparison with intervals that hold at all looks; without a verdict where the runs are too few for that."""
    from scipy import special

    if found.interval is None or found.interval_90 is None or found.se is None or found.df is None:
        return found
    single, single_90 = (float(special.stdtrit(found.df, 1 - alpha / 2)) for alpha in (ALPHA, 2 * ALPHA))
    # One of a family is wider than a single one; it stays so by the same factor.
    scale, scale_90 = _half(found.interval) / single, _half(found.interval_90) / single_90
    wide = critical_t(found.n, found.df) * scale
    narrow = critical_t(found.n, found.df, 2 * SPENT) * scale_90
    method = f"{found.method}, adjusted for unplanned analyses"
    if not wide < _SAYS_NOTHING:
        note = f"too few runs for a verdict after an unplanned analysis ({found.n})"
        return replace(
            found,
            interval=None,
            interval_90=None,
            p=None,
            equivalence_p=None,
            verdict="points_only",
            method=method,
            note=note,
            mde_percent=None,
            runs_needed=None,
        )
    middle = math.log1p(found.ratio_percent / 100)
    interval, interval_90 = (ratio_interval(middle - half, middle + half) for half in (wide, narrow))
    return replace(
        found,
        interval=interval,
        interval_90=interval_90,
        verdict=decide(interval, interval_90, found.delta, found.metric.better),
        p=None,
        equivalence_p=None,
        method=method,
        mde_percent=_mde_percent(found, scale / found.se),
        runs_needed=_runs_needed(found, scale / found.se),
    )


def _half(interval: tuple[float, float]) -> float:
    low, high = (math.log1p(end / 100) for end in interval)
    return (high - low) / 2


def _alpha(n: int, df: float, factor: float) -> float:
    from scipy import special

    return 2 * float(special.stdtr(df, -factor * critical_t(n, df)))


def _mde_percent(found: Comparison, factor: float) -> float | None:
    if found.se is None or found.df is None or found.se < NO_SPREAD:
        return None
    return ratio_percent(errors_found(found.df, _alpha(found.n, found.df, factor)) * found.se)


def _runs_needed(found: Comparison, factor: float) -> int | None:
    """Runs of each with which a look finds a difference of the margin in POWER of the campaigns."""
    if found.se is None or found.df is None or found.runs_needed is None:
        return None
    effect = math.log1p(found.delta) / found.se / math.sqrt(found.n)
    each = found.df / max(1, found.n - 1)

    def enough(n: int) -> bool:
        df = each * (n - 1)
        if not math.isfinite(critical_t(n, df)):
            return False
        return not power_of(effect * math.sqrt(n), df, _alpha(n, df, factor)) < POWER

    low, high = found.runs_needed - 1, found.runs_needed
    while not enough(high) and high < _MOST_RUNS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
