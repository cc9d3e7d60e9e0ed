"""A against B: paired t on logs within blocks, Welch's t on logs otherwise, and the verdict on either."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from common.errors import PlanError
from stats.comparison import ranks
from stats.comparison.tails import heavy_tails
from stats.model import (
    NO_SPREAD,
    POINTS_ONLY_BELOW,
    Comparison,
    Floats,
    Interval,
    Metric,
    Observation,
    by_level,
    decide,
    logs,
    ratio_interval,
    ratio_percent,
)
from stats.power import ALPHA, mde_percent, runs_needed

MOST_RANKED = 50


@dataclass(frozen=True)
class Estimate:
    """A difference of mean logs with its 95 % and 90 % intervals (still logs); `s` for mde_percent(). `alpha`:
    the share of one of a family of comparisons; `pooled`: its `s` and `df` come from more than two arms. `by_ranks`: it
    is a shift by ranks, and `s`, `se` and `df` are those of a t interval of the same width."""

    difference: float
    interval: Interval
    interval_90: Interval
    p: float | None
    s: float
    method: str
    paired: bool = False
    se: float | None = None
    df: float | None = None
    alpha: float = ALPHA
    pooled: bool = False
    by_ranks: bool = False


def compare(
    a: Sequence[float],
    b: Sequence[float],
    *,
    metric: Metric,
    delta: float,
    blocked: bool,
    names: tuple[str, str] = ("A", "B"),
    of: int = 1,
) -> Comparison:
    """B against A, one value a run; with `blocked`, a[i] and b[i] are of the same block. `delta` is a fraction. `of`:
    the number of such comparisons, whose intervals hold simultaneously (Bonferroni)."""
    log_a, log_b = logs(a), logs(b)
    if blocked and len(log_a) != len(log_b):
        raise PlanError(
            "blocked",
            f"{len(log_a)} and {len(log_b)} runs cannot be paired",
            hint="each block needs one run of each level",
        )
    return compare_arms(log_a, log_b, metric, delta, blocked=blocked, names=names, of=of)


def compare_arms(
    log_a: Floats,
    log_b: Floats,
    metric: Metric,
    delta: float,
    *,
    blocked: bool,
    names: tuple[str, str],
    of: int = 1,
) -> Comparison:
    """The same, of logs."""
    if min(len(log_a), len(log_b)) < POINTS_ONLY_BELOW:
        return points_only(log_a, log_b, metric, delta, names)
    return judged(log_a, log_b, estimate_arms(log_a, log_b, blocked=blocked, of=of), metric, delta, names)


def estimate_arms(log_a: Floats, log_b: Floats, *, blocked: bool, of: int = 1) -> Estimate:
    """By ranks if the runs have heavy tails, otherwise by means; as one of so many comparisons."""
    share = ranks.of_many(of)
    by_ranks = heavy_tails([log_b - log_a] if blocked else [log_a, log_b], share_baseline=False)
    if by_ranks and ranks.can_reject(len(log_a), len(log_b), share, blocked=blocked):
        return rank_estimate(log_a, log_b, share, blocked=blocked)
    return one_of(paired(log_a, log_b) if blocked else welch(log_a, log_b), of)


def compare_levels(rows: Sequence[Observation], a: str, b: str, metric: Metric, delta: float) -> Comparison:
    """Level b against level a of a campaign: in the blocks that both ran in, or Welch where no levels share blocks."""
    levels = by_level(rows)
    missing = [level for level in (a, b) if level not in levels]
    if missing:
        raise PlanError("level", f"{missing[0]} has no successful run", hint="compare levels that have results")
    log_a, log_b = (logs([row.value for row in levels[level]]) for level in (a, b))
    unit = rows[0].unit
    if not in_blocks(rows):
        return compare_arms(log_a, log_b, metric, delta, blocked=False, names=(a, b))
    paired_a, paired_b = in_common_blocks(levels[a], levels[b])
    if len(paired_a) >= POINTS_ONLY_BELOW:
        return in_units(compare_arms(paired_a, paired_b, metric, delta, blocked=True, names=(a, b)), unit)
    points = points_only(log_a, log_b, metric, delta, (a, b))
    if points.n < POINTS_ONLY_BELOW:
        return in_units(points, unit)
    return in_units(replace(points, note=few_blocks(len(paired_a), [*levels[a], *levels[b]])), unit)


def in_blocks(rows: Sequence[Observation]) -> bool:
    """Whether runs have to be compared within blocks: a block holds more than one level, or runs were retried later."""
    return len({(row.level, row.block) for row in rows}) > len({row.block for row in rows}) or any(
        row.retried for row in rows
    )


def in_common_blocks(
    a: Sequence[Observation], b: Sequence[Observation], scale: Callable[[Sequence[float]], Floats] = logs
) -> tuple[Floats, Floats]:
    """Means of both levels on this scale, in each block that has both."""
    cells_a, cells_b = _of_blocks(a, scale), _of_blocks(b, scale)
    common = [block for block in sorted(cells_a) if block in cells_b]
    return np.array([cells_a[each] for each in common]), np.array([cells_b[each] for each in common])


def _of_blocks(rows: Sequence[Observation], scale: Callable[[Sequence[float]], Floats]) -> dict[int, float]:
    cells: dict[int, list[float]] = {}
    for row in rows:
        cells.setdefault(row.block, []).append(row.value)
    return {block: float(scale(values).mean()) for block, values in cells.items()}


def few_blocks(common: int, rows: Sequence[Observation]) -> str:
    """Why levels with runs enough are not compared."""
    shared = {0: "no block", 1: "only 1 block"}.get(common, f"only {common} blocks")
    because = ", because runs were retried later" if any(row.retried for row in rows) else ""
    return f"they share {shared}{because}"


def in_units(comparison: Comparison, unit: str) -> Comparison:
    """A comparison of means of hosts does not determine how many runs are needed."""
    return comparison if unit == "run" else replace(comparison, unit=unit, runs_needed=None)


def points_only(log_a: Floats, log_b: Floats, metric: Metric, delta: float, names: tuple[str, str]) -> Comparison:
    """The ratio alone, for fewer than three runs."""
    if not min(len(log_a), len(log_b)):
        raise PlanError("runs", "there is no successful run to compare", hint="wait for a run of each level")
    return Comparison(
        a=names[0],
        b=names[1],
        metric=metric,
        delta=delta,
        n_a=len(log_a),
        n_b=len(log_b),
        mean_a=math.exp(log_a.mean()),
        mean_b=math.exp(log_b.mean()),
        ratio_percent=ratio_percent(float(log_b.mean() - log_a.mean())),
        verdict="points_only",
        method="ratio of geometric means",
    )


def judged(
    log_a: Floats, log_b: Floats, estimate: Estimate, metric: Metric, delta: float, names: tuple[str, str]
) -> Comparison:
    """An estimate with its verdict and what stands beside it."""
    if not 0 < delta < 1:
        raise PlanError(
            "delta", f"{delta:g} is not a margin", hint="accepted: a fraction between 0 and 1, such as 0.02"
        )
    interval, interval_90 = ratio_interval(*estimate.interval), ratio_interval(*estimate.interval_90)
    n_a, n_b = len(log_a), len(log_b)
    # Welch's degrees of freedom shrink by chance; the detectable effect assumes arms of equal variance.
    df = estimate.df if estimate.pooled else None
    df_each = df / (min(n_a, n_b) - 1) if df else None
    # Ranks are a cross-check of two arms that stand alone; blocks and other levels are nothing to them.
    alone = not estimate.paired and not estimate.pooled and max(n_a, n_b) <= MOST_RANKED
    return Comparison(
        a=names[0],
        b=names[1],
        metric=metric,
        delta=delta,
        n_a=n_a,
        n_b=n_b,
        mean_a=math.exp(log_a.mean()),
        mean_b=math.exp(log_b.mean()),
        ratio_percent=ratio_percent(estimate.difference),
        verdict=decide(interval, interval_90, delta, metric.better),
        method=estimate.method,
        interval=interval,
        interval_90=interval_90,
        p=estimate.p,
        equivalence_p=None if estimate.by_ranks else _equivalence_p(estimate, delta),
        s=estimate.s,
        mde_percent=mde_percent(estimate.s, n_a, n_b, paired=estimate.paired, alpha=estimate.alpha, df=df),
        runs_needed=runs_needed(
            estimate.s,
            delta,
            paired=estimate.paired,
            alpha=estimate.alpha,
            df_each=df_each,
            known_df=estimate.df or None,
        ),
        mann_whitney_p=_mann_whitney_p(log_a, log_b) if alone else None,
        hodges_lehmann_percent=_hodges_lehmann_percent(log_a, log_b) if alone else None,
        se=estimate.se,
        df=estimate.df,
        by_ranks=estimate.by_ranks,
    )


def t_estimate(difference: float, se: float, df: float, s: float, method: str, *, paired: bool = False) -> Estimate:
    """An estimate whose error is t distributed; without any spread it is the difference itself, and has no p."""
    from scipy import special

    if se < NO_SPREAD:
        exact = (difference, difference)
        return Estimate(difference, exact, exact, None, 0.0, method, paired)
    half, half_90 = (float(special.stdtrit(df, quantile)) * se for quantile in (0.975, 0.95))
    p = 2 * float(special.stdtr(df, -abs(difference) / se))
    wide, narrow = (difference - half, difference + half), (difference - half_90, difference + half_90)
    return Estimate(difference, wide, narrow, p, s, method, paired, se, df)


def paired(log_a: Floats, log_b: Floats) -> Estimate:
    """Of logs whose places are blocks."""
    differences = log_b - log_a
    n, s = len(differences), float(differences.std(ddof=1))
    return t_estimate(
        float(differences.mean()), s / math.sqrt(n), n - 1, s, "paired t on logs, within blocks", paired=True
    )


def rank_estimate(log_a: Floats, log_b: Floats, share: ranks.Share, *, blocked: bool) -> Estimate:
    """The shift of b against a by ranks; with `blocked`, places are blocks."""
    from scipy import stats

    n_a, n_b = len(log_a), len(log_b)
    shift = (ranks.within_blocks if blocked else ranks.between)(log_a, log_b, share)
    method = f"Hodges-Lehmann shift by ranks, {'within blocks' if blocked else 'without blocks'}"
    df = n_a - 1 if blocked else n_a + n_b - 2
    se = (shift.interval[1] - shift.interval[0]) / 2 / float(stats.t.isf(share.alpha / 2, df))
    s = se / math.sqrt(1 / n_a + 1 / n_b)
    error = se if se >= NO_SPREAD else None
    return Estimate(
        shift.difference, shift.interval, shift.interval_90, shift.p, s, method,
        se=error, df=df, alpha=share.alpha, pooled=True, by_ranks=True,
    )  # fmt: skip


def welch(log_a: Floats, log_b: Floats) -> Estimate:
    """Of logs that share no blocks."""
    se, s, df = welch_errors(log_a, log_b)
    return t_estimate(float(log_b.mean() - log_a.mean()), se, df, s, "Welch's t on logs")


def welch_errors(a: Floats, b: Floats) -> tuple[float, float, float]:
    """Standard error of the difference of the means, pooled standard deviation, and degrees of freedom."""
    n_a, n_b = len(a), len(b)
    var_a, var_b = float(a.var(ddof=1)), float(b.var(ddof=1))
    error_a, error_b = var_a / n_a, var_b / n_b
    s = math.sqrt(((n_a - 1) * var_a + (n_b - 1) * var_b) / (n_a + n_b - 2))
    # Welch and Satterthwaite's degrees of freedom; without any variance there is nothing to distribute.
    shared = error_a**2 / (n_a - 1) + error_b**2 / (n_b - 1)
    df = (error_a + error_b) ** 2 / shared if shared else float(n_a + n_b - 2)
    return math.sqrt(error_a + error_b), s, df


def one_of(estimate: Estimate, many: int) -> Estimate:
    """An estimate as one of several: its error probability is a share of that of all of them."""
    if many < 2 or estimate.se is None or estimate.df is None or estimate.p is None:
        return estimate
    from scipy import special

    wide, narrow = (
        float(special.stdtrit(estimate.df, 1 - alpha / (2 * many))) * estimate.se for alpha in (ALPHA, 2 * ALPHA)
    )
    return replace(
        estimate,
        interval=(estimate.difference - wide, estimate.difference + wide),
        interval_90=(estimate.difference - narrow, estimate.difference + narrow),
        p=min(1.0, many * estimate.p),
        method=f"{estimate.method}, Bonferroni for {many}",
        alpha=ALPHA / many,
    )


def _equivalence_p(estimate: Estimate, delta: float) -> float | None:
    """The larger p of the two one-sided tests against the margins."""
    from scipy import special

    if estimate.se is None or estimate.df is None:
        return None
    above = special.stdtr(estimate.df, -(estimate.difference - math.log1p(-delta)) / estimate.se)
    below = special.stdtr(estimate.df, (estimate.difference - math.log1p(delta)) / estimate.se)
    return float(max(above, below))


def _mann_whitney_p(log_a: Floats, log_b: Floats) -> float:
    from scipy import stats

    # The exact distribution knows no ties; scipy's own rule falls back to the corrected normal one then.
    tied = len(np.unique(np.concatenate([log_a, log_b]))) < len(log_a) + len(log_b)
    return float(stats.mannwhitneyu(log_b, log_a, method="asymptotic" if tied else "exact").pvalue)


def _hodges_lehmann_percent(log_a: Floats, log_b: Floats) -> float:
    return ratio_percent(float(np.median(np.subtract.outer(log_b, log_a))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p of planned comparisons (Holm 1979): the lowest times n, the next times n - 1, none below the last."""
    by_size = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    steps = np.asarray(p_values, dtype=float)[by_size] * np.arange(len(p_values), 0, -1)
    adjusted[by_size] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(p) for p in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p of an exploratory scan."""
    from scipy import stats

    return [float(p) for p in stats.false_discovery_control(p_values)] if len(p_values) else []
