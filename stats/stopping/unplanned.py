"""Comparisons that users can see before the planned end of a campaign, or after which they decided to stop or to
continue without a planned rule.

A confidence sequence holds at all numbers of runs simultaneously, so it holds for each reason to stop: the mixture t
martingale of Lai (1976), with a normal prior on the effect in units of its noise (Rouder et al. 2009; Wang and Ramdas
2025). The planned end of a campaign keeps its 5 %. By simulation, analyses before or after it
add 0.9 % at most (up to 40 blocks).
"""

from __future__ import annotations

import math
from dataclasses import replace

from stats.model import NO_SPREAD, Comparison, decide, ratio_interval, ratio_percent
from stats.power import ALPHA, POWER, detectable_errors, fewest_runs, power_of

SPENT = 0.025  # of all unplanned analyses together
PRIOR = 3.0  # variance of the effect: small numbers of runs already say something, large ones little less
# An interval beyond a factor of ten in either direction has no information.
_SAYS_NOTHING = math.log(10)


def critical_t(n: int, df: float, alpha: float = SPENT) -> float:
    """The |t| of `n` runs that a share `alpha` of campaigns without a difference exceeds at any n at most; infinite for
    so few runs that none does."""
    growth = 1 + n * PRIOR
    ratio = (math.sqrt(growth) / alpha) ** (2 / (df + 1))
    return math.sqrt(df * (ratio - 1) / (1 - ratio / growth)) if ratio < growth else math.inf


def at_unplanned_analysis(comparison: Comparison, *, is_live: bool = False) -> Comparison:
    """The comparison with intervals that hold at every unplanned analysis; without a verdict if runs are too few.

    `is_live`: the campaign is still running. The result is then preliminary, and the runs needed are those of the
    planned end."""
    from scipy import special

    if comparison.interval is None or comparison.interval_90 is None or comparison.se is None or comparison.df is None:
        return replace(comparison, is_live=is_live)
    single, single_90 = (float(special.stdtrit(comparison.df, 1 - alpha / 2)) for alpha in (ALPHA, 2 * ALPHA))
    # One of a family is wider than a single one; it stays so by the same factor.
    scale, scale_90 = _half(comparison.interval) / single, _half(comparison.interval_90) / single_90
    wide = critical_t(comparison.n, comparison.df) * scale
    narrow = critical_t(comparison.n, comparison.df, 2 * SPENT) * scale_90
    method = f"{comparison.method}, adjusted for unplanned analyses"
    if not wide < _SAYS_NOTHING:
        when = "while the campaign runs" if is_live else "after an unplanned analysis"
        note = f"too few runs for a verdict {when} ({comparison.n})"
        return replace(
            comparison,
            interval=None,
            interval_90=None,
            p=None,
            equivalence_p=None,
            verdict="points_only",
            method=method,
            note=note,
            mde_percent=None,
            runs_needed=None,
            is_live=is_live,
        )
    middle = math.log1p(comparison.ratio_percent / 100)
    interval, interval_90 = (ratio_interval(middle - half, middle + half) for half in (wide, narrow))
    return replace(
        comparison,
        interval=interval,
        interval_90=interval_90,
        verdict=decide(interval, interval_90, comparison.delta, comparison.metric.better),
        p=None,
        equivalence_p=None,
        method=method,
        mde_percent=_mde_percent(comparison, scale / comparison.se),
        runs_needed=comparison.runs_needed if is_live else _runs_needed(comparison, scale / comparison.se),
        is_live=is_live,
    )


def _half(interval: tuple[float, float]) -> float:
    low, high = (math.log1p(end / 100) for end in interval)
    return (high - low) / 2


def _alpha(n: int, df: float, factor: float) -> float:
    from scipy import special

    return 2 * float(special.stdtr(df, -factor * critical_t(n, df)))


def _mde_percent(comparison: Comparison, factor: float) -> float | None:
    if comparison.se is None or comparison.df is None or comparison.se < NO_SPREAD:
        return None
    return ratio_percent(detectable_errors(comparison.df, _alpha(comparison.n, comparison.df, factor)) * comparison.se)


def _runs_needed(comparison: Comparison, factor: float) -> int | None:
    """Runs of each level with which an unplanned analysis detects a difference of the margin, with power POWER."""
    if comparison.se is None or comparison.df is None or comparison.runs_needed is None:
        return None
    effect = math.log1p(comparison.delta) / comparison.se / math.sqrt(comparison.n)
    each = comparison.df / max(1, comparison.n - 1)

    def enough(n: int) -> bool:
        df = each * (n - 1)
        if not math.isfinite(critical_t(n, df)):
            return False
        return not power_of(effect * math.sqrt(n), df, _alpha(n, df, factor)) < POWER

    return fewest_runs(enough, comparison.runs_needed)
