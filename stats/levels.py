"""k levels compared with a baseline or each other: least squares on logs, with blocks where the design has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from common.errors import PlanError
from stats.fits import Fit, fit
from stats.model import (
    NO_SPREAD,
    POINTS_ONLY_BELOW,
    Comparison,
    Floats,
    Level,
    LevelTable,
    Metric,
    Observation,
    by_level,
    complete_blocks,
    logs,
)
from stats.pairs import Estimate, compare_levels, holm, judged, points_only, t_estimate

# Fixes the quasi-random integration of the multivariate t, so that a page shows the same digits twice.
_SEED = 20130901
# With more comparisons than these the integral takes minutes; Holm's contrasts are a little wider, and take none.
MOST_IN_ONE_INTEGRAL = 20
_TUKEY = {True: "Tukey on logs, within blocks", False: "Tukey-Kramer on logs"}


def level_table(rows: Sequence[Observation]) -> LevelTable:
    """Geometric mean and 95 % interval of every level, levels in the order of their first row.

    Where every level ran in every block, the intervals use the spread within blocks, common to all levels; otherwise
    each level's own. `p` is of the hypothesis that all levels are the same.
    """
    levels = by_level(rows)
    if complete_blocks(rows) and len(levels) > 1:
        return _blocked_table(rows, levels)
    return _plain_table(levels)


def _blocked_table(rows: Sequence[Observation], levels: dict[str, list[Observation]]) -> LevelTable:
    found = fit(rows, blocked=True)
    table = tuple(_level(name, own, found.s, found.df) for name, own in levels.items())
    return LevelTable(table, True, found.s, found.df, found.levels_p, "least squares on logs, levels and blocks")


def _plain_table(levels: dict[str, list[Observation]]) -> LevelTable:
    arms = [logs([row.value for row in own]) for own in levels.values()]
    table = tuple(
        _level(name, own, float(arm.std(ddof=1)) if len(arm) > 1 else 0.0, len(arm) - 1)
        for (name, own), arm in zip(levels.items(), arms, strict=True)
    )
    df = sum(len(arm) - 1 for arm in arms)
    s = math.sqrt(sum(((arm - arm.mean()) ** 2).sum() for arm in arms) / df) if df else None
    return LevelTable(table, False, s, df, _welch_anova_p(arms), "each level's own spread of logs")


def _welch_anova_p(arms: list[Floats]) -> float | None:
    from statsmodels.stats.oneway import anova_oneway

    if len(arms) < 2 or min(len(arm) for arm in arms) < 2 or min(float(arm.std()) for arm in arms) < NO_SPREAD:
        return None
    return float(anova_oneway(arms, use_var="unequal").pvalue)


def _level(name: str, own: Sequence[Observation], s: float, df: int) -> Level:
    from scipy import stats

    values = logs([row.value for row in own])
    n, mean = len(values), float(values.mean())
    if n < 2 or df < 1:
        return Level(name, n, math.exp(mean), None)
    half = float(stats.t.ppf(0.975, df)) * s / math.sqrt(n)
    return Level(name, n, math.exp(mean), (math.exp(mean - half), math.exp(mean + half)))


def against_baseline(rows: Sequence[Observation], baseline: str, metric: Metric, delta: float) -> list[Comparison]:
    """Every other level against `baseline`, with intervals that hold together (Dunnett).

    Incomplete blocks: contrasts with Holm's p and Bonferroni's intervals. Levels below three runs give points only.
    """
    levels = by_level(rows)
    if baseline not in levels:
        raise PlanError(
            "baseline", f"{baseline} has no finished run", hint=f"choose one of {', '.join(levels) or 'none yet'}"
        )
    others = [name for name in levels if name != baseline]
    enough = [name for name in others if min(len(levels[name]), len(levels[baseline])) >= POINTS_ONLY_BELOW]
    family = [row for row in rows if row.level in (baseline, *enough)]
    estimates = _family(family, baseline, enough) if len(enough) > 1 else {}
    return [
        _judge(levels, baseline, name, estimates[name], metric, delta)
        if name in estimates
        else compare_levels(rows, baseline, name, metric, delta)
        for name in others
    ]


def _family(rows: Sequence[Observation], baseline: str, others: list[str]) -> dict[str, Estimate]:
    many = len(others) > MOST_IN_ONE_INTEGRAL
    if complete_blocks(rows):
        found = fit(rows, blocked=True)
        if many:
            return _holm_contrasts(found, baseline, others, "within blocks")
        return _dunnett_in_blocks(found, baseline, others)
    if len({row.block for row in rows}) > 1 and _shared_blocks(rows):
        found = fit(rows, blocked=True)
        if not found.rank_lost and found.df > 0:
            return _holm_contrasts(found, baseline, others, "incomplete blocks")
    if many:
        return _holm_contrasts(fit(rows, blocked=False), baseline, others, "without blocks")
    return _dunnett_plain(by_level(rows), baseline, others)


def _shared_blocks(rows: Sequence[Observation]) -> bool:
    """Whether a block holds more than one level, without which it says nothing about differences."""
    return len({(row.level, row.block) for row in rows}) > len({row.block for row in rows})


def _dunnett_in_blocks(found: Fit, baseline: str, others: list[str]) -> dict[str, Estimate]:
    wide, narrow = (_dunnett_critical(len(others), found.df, level) for level in (0.95, 0.90))
    estimates = {}
    for name in others:
        difference, se = found.contrast(baseline, name)
        p = None if found.s < NO_SPREAD else 1 - _dunnett_cdf(abs(difference) / se, len(others), found.df)
        estimates[name] = _simultaneous(difference, se, found, (wide, narrow), p, "Dunnett on logs, within blocks")
    return estimates


def _simultaneous(
    difference: float, se: float, found: Fit, critical: tuple[float, float], p: float | None, method: str
) -> Estimate:
    wide, narrow = (factor * se for factor in critical)
    interval, interval_90 = (difference - wide, difference + wide), (difference - narrow, difference + narrow)
    # Without spread the error is nil, and a t test against the margin has nothing to divide by.
    error = se if se >= NO_SPREAD else None
    alpha = _alpha_of(critical[0], found.df)
    return Estimate(
        difference, interval, interval_90, p, found.s, method, se=error, df=found.df, alpha=alpha, pooled=True
    )


def _alpha_of(critical: float, df: float) -> float:
    """What is left of alpha for one comparison of a family: the two-sided p of t at the family's critical value."""
    from scipy import special

    return 2 * float(special.stdtr(df, -critical))


def _dunnett_cdf(t: float, others: int, df: int) -> float:
    from scipy import stats

    shape = np.full((others, others), 0.5) + 0.5 * np.eye(others)
    bound = np.full(others, t)
    rng = np.random.default_rng(_SEED)
    return float(stats.multivariate_t.cdf(bound, shape=shape, df=df, lower_limit=-bound, random_state=rng))


@lru_cache(maxsize=256)
def _dunnett_critical(others: int, df: int, level: float) -> float:
    """Two-sided critical value of `others` comparisons with one control, all arms of one size (correlation .5)."""
    from scipy import optimize, stats

    # Between one comparison and as many independent ones as Bonferroni pays for.
    low = float(stats.t.ppf((1 + level) / 2, df))
    high = float(stats.t.ppf(1 - (1 - level) / (2 * others), df))
    found = optimize.brentq(lambda t: _dunnett_cdf(t, others, df) - level, 0.99 * low, 1.01 * high, xtol=1e-5)
    return float(found)


def _holm_contrasts(found: Fit, baseline: str, others: list[str], blocks: str) -> dict[str, Estimate]:
    from scipy import stats

    contrasts = {name: found.contrast(baseline, name) for name in others}
    single = {name: t_estimate(*pair, found.df, found.s, "") for name, pair in contrasts.items()}
    adjusted = dict(zip(others, holm([_or_one(single[name].p) for name in others]), strict=True))
    critical = tuple(float(stats.t.ppf(1 - alpha / (2 * len(others)), found.df)) for alpha in (0.05, 0.10))
    method = f"contrasts on logs, {blocks}, Holm"
    return {
        name: _simultaneous(*contrasts[name], found, (critical[0], critical[1]), adjusted[name], method)
        for name in others
    }


def _or_one(p: float | None) -> float:
    return 1.0 if p is None else p


def _dunnett_plain(levels: dict[str, list[Observation]], baseline: str, others: list[str]) -> dict[str, Estimate]:
    from scipy import stats

    found = fit([row for own in levels.values() for row in own], blocked=False)
    contrasts = {name: found.contrast(baseline, name) for name in others}
    if found.s < NO_SPREAD:
        return {name: t_estimate(difference, 0.0, 1, 0.0, "") for name, (difference, _) in contrasts.items()}
    arms = {name: logs([row.value for row in own]) for name, own in levels.items()}
    tested = stats.dunnett(*(arms[name] for name in others), control=arms[baseline], rng=np.random.default_rng(_SEED))
    wide, narrow = tested.confidence_interval(0.95), tested.confidence_interval(0.90)
    halves = (np.ravel(wide.high) - np.ravel(wide.low)) / 2
    return {
        name: Estimate(
            contrasts[name][0],
            (float(np.ravel(wide.low)[i]), float(np.ravel(wide.high)[i])),
            (float(np.ravel(narrow.low)[i]), float(np.ravel(narrow.high)[i])),
            float(tested.pvalue[i]),
            found.s,
            "Dunnett on logs",
            se=contrasts[name][1],
            df=found.df,
            alpha=_alpha_of(float(halves[i]) / contrasts[name][1], found.df),
            pooled=True,
        )
        for i, name in enumerate(others)
    }


def _judge(
    levels: dict[str, list[Observation]], a: str, b: str, found: Estimate, metric: Metric, delta: float
) -> Comparison:
    log_a, log_b = (logs([row.value for row in levels[name]]) for name in (a, b))
    return judged(log_a, log_b, found, metric, delta, (a, b))


def pair_of_all(rows: Sequence[Observation], a: str, b: str, metric: Metric, delta: float) -> Comparison:
    """Level b against a, with an interval that holds though these two were picked from all pairs (Tukey)."""
    blocked, levels = complete_blocks(rows), by_level(rows)
    if min(len(own) for own in levels.values()) < POINTS_ONLY_BELOW or len(levels) < 3:
        return compare_levels(rows, a, b, metric, delta)
    found = _tukey(fit(rows, blocked=blocked), a, b, _TUKEY[blocked])
    return _judge(levels, a, b, found, metric, delta)


def all_pairs(rows: Sequence[Observation], metric: Metric, delta: float) -> list[Comparison]:
    """Every level against every later one, with intervals that hold together (Tukey)."""
    levels = by_level(rows)
    pairs = list(combinations(levels, 2))
    if len(levels) < 3:
        return [compare_levels(rows, a, b, metric, delta) for a, b in pairs]
    if min(len(own) for own in levels.values()) < POINTS_ONLY_BELOW:
        arms = {name: logs([row.value for row in own]) for name, own in levels.items()}
        return [points_only(arms[a], arms[b], metric, delta, (a, b)) for a, b in pairs]
    blocked = complete_blocks(rows)
    found = fit(rows, blocked=blocked)
    return [_judge(levels, a, b, _tukey(found, a, b, _TUKEY[blocked]), metric, delta) for a, b in pairs]


@lru_cache(maxsize=256)
def _tukey_critical(k: int, df: int, level: float) -> float:
    """Two-sided critical value of a difference among all pairs of k levels; 0.1 s to find, hence kept."""
    from scipy import stats

    return float(stats.studentized_range.ppf(level, k, df)) / math.sqrt(2)


def _tukey(found: Fit, a: str, b: str, method: str) -> Estimate:
    from scipy import stats

    k = len(found.levels)
    difference, se = found.contrast(a, b)
    wide, narrow = (_tukey_critical(k, found.df, level) for level in (0.95, 0.90))
    t = abs(difference) / se if se >= NO_SPREAD else None
    p = None if t is None else float(stats.studentized_range.sf(t * math.sqrt(2), k, found.df))
    return _simultaneous(difference, se, found, (wide, narrow), p, method)
