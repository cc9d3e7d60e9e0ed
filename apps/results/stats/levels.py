"""k levels of one factor, and the interaction of two: least squares on logs, with blocks where the design has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from apps.errors import PlanError
from apps.results.stats.model import (
    NO_SPREAD,
    POINTS_ONLY_BELOW,
    Comparison,
    Floats,
    Interval,
    Level,
    LevelTable,
    Metric,
    Observation,
    by_level,
    complete_blocks,
    logs,
    percent,
    ratio_interval,
    ratio_percent,
)
from apps.results.stats.pairs import Estimate, compare_levels, holm, judged, points_only, t_estimate

# Fixes the quasi-random integration of the multivariate t, so that a page shows the same digits twice.
_SEED = 20130901
# With more comparisons than these the integral takes minutes; Holm's contrasts are a little wider, and take none.
MOST_IN_ONE_INTEGRAL = 20


@dataclass(frozen=True)
class Fit:
    """Least squares of logs on levels (the first columns) and blocks; `rank_lost` when the cells cannot tell them."""

    result: Any
    levels: list[str]
    rank_lost: bool

    @property
    def df(self) -> int:
        return int(self.result.df_resid)

    @property
    def s(self) -> float:
        return math.sqrt(max(0.0, float(self.result.mse_resid)))

    def contrast(self, a: str, b: str) -> tuple[float, float]:
        """Difference of mean logs of b and a, and its standard error."""
        weights = np.zeros(len(self.result.params))
        weights[self.levels.index(b)], weights[self.levels.index(a)] = 1.0, -1.0
        tested = self.result.t_test(weights)
        return float(np.squeeze(tested.effect)), float(np.squeeze(tested.sd))


def fit(rows: Sequence[Observation], *, blocked: bool) -> Fit:
    from statsmodels.regression.linear_model import OLS

    levels = list(by_level(rows))
    blocks = sorted({row.block for row in rows})[1:] if blocked else []
    of_level, of_block = np.array([row.level for row in rows]), np.array([row.block for row in rows])
    design = np.column_stack([of_level == level for level in levels] + [of_block == one for one in blocks])
    model = OLS(logs([row.value for row in rows]), design.astype(np.float64))
    # Many times as fast as the default, and as exact where every level is in every block; it needs full rank.
    result = model.fit(method="qr" if complete_blocks(rows) else "pinv")
    return Fit(result, levels, bool(model.rank < design.shape[1]))


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
    return LevelTable(table, True, found.s, found.df, _levels_p(found), "least squares on logs, levels and blocks")


def _levels_p(found: Fit) -> float | None:
    if found.s < NO_SPREAD:
        return None
    others = len(found.levels) - 1
    restriction = np.zeros((others, len(found.result.params)))
    restriction[:, 0] = -1.0
    restriction[np.arange(others), np.arange(1, others + 1)] = 1.0
    return float(found.result.f_test(restriction).pvalue)


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
    return Estimate(difference, interval, interval_90, p, found.s, method, se=error, df=found.df)


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
        )
        for i, name in enumerate(others)
    }


def _judge(
    levels: dict[str, list[Observation]], a: str, b: str, found: Estimate, metric: Metric, delta: float
) -> Comparison:
    log_a, log_b = (logs([row.value for row in levels[name]]) for name in (a, b))
    return judged(log_a, log_b, found, metric, delta, (a, b))


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
    method = "Tukey on logs, within blocks" if blocked else "Tukey-Kramer on logs"
    return [_judge(levels, a, b, _tukey(found, a, b, method), metric, delta) for a, b in pairs]


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


@dataclass(frozen=True)
class Cell:
    """One run of a design of two factors with two levels each."""

    a: str
    b: str
    block: int
    value: float


@dataclass(frozen=True)
class Interaction:
    """How much more (or less) factor B does at the second level of A than at the first: a ratio of ratios."""

    a_levels: tuple[str, str]
    b_levels: tuple[str, str]
    effects_percent: tuple[float, float]
    ratio_percent: float
    interval: Interval
    p: float | None
    s: float

    def sentence(self) -> str:
        """The two effects and their ratio in words."""
        (low_a, high_a), (low_b, high_b), (first, second) = self.a_levels, self.b_levels, self.effects_percent
        low, high = self.interval
        tail = "they differ" if low > 0 or high < 0 else "no difference of the two can be detected"
        return (
            f"{high_b} against {low_b} gives {percent(first)} with {low_a} and {percent(second)} with {high_a}: "
            f"{tail} (ratio of ratios {percent(self.ratio_percent)}, 95 % interval {low:+.2f} to {high:+.2f} %)."
        )


def interaction(cells: Sequence[Cell]) -> Interaction:
    """Least squares of logs on A, B, A x B and block. Raises PlanError unless every cell ran once in every block."""
    a_levels, b_levels = list(dict.fromkeys(c.a for c in cells)), list(dict.fromkeys(c.b for c in cells))
    rows = [Observation(f"{c.a}\0{c.b}", c.block, c.value, order) for order, c in enumerate(cells)]
    whole = complete_blocks(rows) and len(a_levels) == len(b_levels) == 2 and len({row.level for row in rows}) == 4
    if not whole:
        raise PlanError(
            "interaction", "it needs 2 x 2 levels in 2 blocks at least", hint="run every cell in every block"
        )
    found = fit(rows, blocked=True)
    effects = [found.contrast(f"{a}\0{b_levels[0]}", f"{a}\0{b_levels[1]}")[0] for a in a_levels]
    difference, n = effects[1] - effects[0], len(cells) // 4
    estimate = t_estimate(
        difference, 2 * found.s / math.sqrt(n), found.df, found.s, "interaction on logs, within blocks"
    )
    return Interaction(
        a_levels=(a_levels[0], a_levels[1]),
        b_levels=(b_levels[0], b_levels[1]),
        effects_percent=(ratio_percent(effects[0]), ratio_percent(effects[1])),
        ratio_percent=ratio_percent(difference),
        interval=ratio_interval(*estimate.interval),
        p=estimate.p,
        s=found.s,
    )
