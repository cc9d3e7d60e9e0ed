"""k levels compared with a baseline or each other: least squares on logs, with blocks where the design has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import replace

import numpy as np

from common.errors import PlanError
from stats.comparison import ranks
from stats.comparison.family import critical, critical_of_pairs, joint_coverage, joint_coverage_of_pairs, largest_of
from stats.comparison.fits import Fit, fit, indices
from stats.comparison.pairs import (
    Estimate,
    compare_levels,
    few_blocks,
    in_blocks,
    in_common_blocks,
    in_units,
    judged,
    one_of,
    paired,
    points_only,
    rank_estimate,
    t_estimate,
)
from stats.comparison.spreads import Family, Spreads, family, family_of_starts, levels_apart, starts_alike
from stats.comparison.tails import heavy_tails
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

_Pair = tuple[Floats, Floats]
# Level -> numbers of the boot, the cluster and the start of the server that its runs share with others in a block.
Starts = Mapping[str, Sequence[int]]
NO_STARTS: Starts = {}

MOST_NAMED = 3
INCOMPLETE = "max-t of contrasts on logs, incomplete blocks"
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
    fitted = fit(rows, blocked=True)
    table = tuple(_level(name, own, fitted.s, fitted.df) for name, own in levels.items())
    return LevelTable(table, True, fitted.s, fitted.df, fitted.levels_p, "least squares on logs, levels and blocks")


def _plain_table(levels: dict[str, list[Observation]]) -> LevelTable:
    arms = [logs([row.value for row in own]) for own in levels.values()]
    table = tuple(
        _level(name, own, float(arm.std(ddof=1)) if len(arm) > 1 else 0.0, len(arm) - 1)
        for (name, own), arm in zip(levels.items(), arms, strict=True)
    )
    df = sum(len(arm) - 1 for arm in arms)
    s = math.sqrt(sum(((arm - arm.mean()) ** 2).sum() for arm in arms) / df) if df else None
    return LevelTable(table, False, s, df, _welch_anova_p(arms), "separate variance of logs for each level")


def _welch_anova_p(arms: list[Floats]) -> float | None:
    if len(arms) < 2 or min(len(arm) for arm in arms) < 2 or min(float(arm.std()) for arm in arms) < NO_SPREAD:
        return None
    from scipy import stats

    return float(stats.f_oneway(*arms, equal_var=False).pvalue)


def _level(name: str, own: Sequence[Observation], s: float, df: int) -> Level:
    from scipy import special

    values = logs([row.value for row in own])
    n, mean = len(values), float(values.mean())
    if n < 2 or df < 1:
        return Level(name, n, math.exp(mean), None)
    half = float(special.stdtrit(df, 0.975)) * s / math.sqrt(n)
    return Level(name, n, math.exp(mean), (math.exp(mean - half), math.exp(mean + half)))


def against_baseline(
    rows: Sequence[Observation], baseline: str, metric: Metric, delta: float, starts: Starts = NO_STARTS
) -> list[Comparison]:
    """Every other level against `baseline`, with intervals that hold together: Dunnett's where spreads are alike, else
    the largest t with the spread of each level that stands apart. Levels below three runs give points only.

    `starts`: for orders in which runs of a block share a start of the server, which start each level belongs to. Then
    differences between starts include the variation between these.
    """
    levels = by_level(rows)
    if baseline not in levels:
        raise PlanError(
            "baseline", f"{baseline} has no successful run", hint=f"choose one of {', '.join(levels) or 'none yet'}"
        )
    others = [name for name in levels if name != baseline]
    enough = [name for name in others if min(len(levels[name]), len(levels[baseline])) >= POINTS_ONLY_BELOW]
    linked = _linked(rows, baseline) if in_blocks(rows) else set(levels)
    compared = [name for name in enough if name in linked]
    family = [row for row in rows if row.level in (baseline, *compared)]
    estimates = _family(family, baseline, compared, starts) if len(compared) > 1 else {}
    comparisons = [
        _judge(levels, baseline, name, estimates[name], metric, delta)
        if name in estimates
        else _alone(rows, levels, baseline, name, name in linked, metric, delta)
        for name in others
    ]
    return [in_units(one, rows[0].unit) for one in comparisons]


def _alone(
    rows: Sequence[Observation],
    levels: dict[str, list[Observation]],
    baseline: str,
    name: str,
    linked: bool,
    metric: Metric,
    delta: float,
) -> Comparison:
    """A level that no other is compared with; one that shares no blocks with the baseline has points only."""
    if linked or min(len(levels[name]), len(levels[baseline])) < POINTS_ONLY_BELOW:
        return compare_levels(rows, baseline, name, metric, delta)
    log_a, log_b = (logs([row.value for row in levels[each]]) for each in (baseline, name))
    points = points_only(log_a, log_b, metric, delta, (baseline, name))
    return replace(points, note=few_blocks(0, [*levels[baseline], *levels[name]]))


def _linked(rows: Sequence[Observation], baseline: str) -> set[str]:
    """The levels that share a block with the baseline, or with one that does."""
    of_block: dict[int, set[str]] = {}
    for row in rows:
        of_block.setdefault(row.block, set()).add(row.level)
    linked, before = {baseline}, set[str]()
    while linked != before:
        before = set(linked)
        linked |= {level for own in of_block.values() if own & before for level in own}
    return linked


def _family(rows: Sequence[Observation], baseline: str, others: list[str], starts: Starts) -> dict[str, Estimate]:
    names = [baseline, *others]
    pairs = _pairs_by_ranks(rows, baseline, others)
    if pairs:
        share = ranks.of_baseline([_shared(*pair) for pair in pairs.values()])
        blocked = in_blocks(rows)
        if all(ranks.can_reject(len(a), len(b), share, blocked=blocked) for a, b in pairs.values()):
            return {name: rank_estimate(a, b, share, blocked=blocked) for name, (a, b) in pairs.items()}
    shared = shared_starts(names, starts) if in_blocks(rows) else []
    if shared:
        return _of_starts(rows, names, shared)
    if complete_blocks(rows):
        spreads = levels_apart(_cell_means(rows, names), blocked=True)
        if spreads.apart:
            return _own_spreads(spreads, names, "within blocks")
        return _dunnett(fit(rows, blocked=True), by_level(rows), names, "Dunnett on logs, within blocks")
    if len({row.block for row in rows}) > 1 and in_blocks(rows):
        absorbed = fit(rows, blocked=True)
        return _incomplete(absorbed, names) if not absorbed.rank_lost and absorbed.df > 0 else {}
    spreads = levels_apart(_ragged(by_level(rows), names), blocked=False)
    if spreads.apart:
        return _own_spreads(spreads, names, "without blocks")
    return _dunnett(fit(rows, blocked=False), by_level(rows), names, "Dunnett on logs")


def _pairs_by_ranks(rows: Sequence[Observation], baseline: str, others: Sequence[str]) -> dict[str, _Pair]:
    """Logs of the baseline and each other level, in their common blocks if runs are compared within blocks. Empty if
    means compare them better than ranks."""
    pairs = {name: _pair(rows, baseline, name) for name in others}
    blocked = in_blocks(rows)
    samples = [b - a if blocked else b for a, b in pairs.values()]
    if pairs and not blocked:
        samples.append(pairs[others[0]][0])
    return pairs if heavy_tails(samples, share_baseline=blocked) else {}


def _pair(rows: Sequence[Observation], a: str, b: str) -> _Pair:
    levels = by_level(rows)
    if in_blocks(rows):
        return in_common_blocks(levels[a], levels[b])
    return logs([row.value for row in levels[a]]), logs([row.value for row in levels[b]])


def _shared(a: Sized, b: Sized) -> float:
    """Root of the baseline's share of a comparison's variance; rounded, so that few integrals are computed."""
    return round(math.sqrt(len(b) / (len(a) + len(b))), 4)


def _cell_means(rows: Sequence[Observation], names: Sequence[str]) -> Floats:
    """Logs of shape (blocks, levels) of complete blocks; where a level ran several times in each, their mean."""
    blocks = sorted({row.block for row in rows})
    level, block = indices([row.level for row in rows], names), indices([row.block for row in rows], blocks)
    sums, counts = np.zeros((2, len(blocks), len(names)))
    np.add.at(sums, (block, level), logs([row.value for row in rows]))
    np.add.at(counts, (block, level), 1.0)
    return np.asarray(sums / counts)


def _ragged(levels: dict[str, list[Observation]], names: Sequence[str]) -> Floats:
    """Logs of shape (most runs, levels), nan where a level has fewer."""
    table = np.full((max(len(levels[name]) for name in names), len(names)), np.nan)
    for place, name in enumerate(names):
        table[: len(levels[name]), place] = logs([row.value for row in levels[name]])
    return table


def _dunnett(
    fitted: Fit, levels: dict[str, list[Observation]], names: Sequence[str], method: str
) -> dict[str, Estimate]:
    """Every level against the first, spreads alike."""
    baseline, *others = names
    shared = tuple(_shared(levels[baseline], levels[name]) for name in others)
    wide, narrow = (critical(shared, fitted.df, level) for level in (0.95, 0.90))
    estimates = {}
    for name in others:
        difference, se = fitted.contrast(baseline, name)
        p = None if fitted.s < NO_SPREAD else 1 - joint_coverage(abs(difference) / se, shared, fitted.df)
        estimates[name] = _simultaneous(difference, se, fitted.df, fitted.s, (wide, narrow), p, method)
    return estimates


def shared_starts(names: Sequence[str], starts: Starts) -> list[list[int]]:
    """How boots, clusters and starts group the levels: the number of the group of each level, for each grouping that
    puts some levels together and others not. Empty if runs are independent within blocks."""
    paths = [tuple(starts.get(name, ())) for name in names]
    groupings: list[list[int]] = []
    for depth in range(1, max(map(len, paths)) + 1):
        known = {path: number for number, path in enumerate(dict.fromkeys(path[:depth] for path in paths))}
        groups = [known[path[:depth]] for path in paths]
        if 1 < len(known) < len(names) and groups not in groupings:
            groupings.append(groups)
    return groupings


def _of_starts(rows: Sequence[Observation], names: Sequence[str], shared: list[list[int]]) -> dict[str, Estimate]:
    """Every level against the first, where some of them share a start. With gaps in blocks, starts within boots, runs
    that do not vary, or levels with different variances, each difference has its own variance, from the blocks of
    both."""
    cells = _cell_means(rows, names) if complete_blocks(rows) and len(shared) == 1 else None
    if cells is not None and starts_alike(cells, shared[0]):
        of_all = family_of_starts(cells, shared[0])
        runs = len(rows) / len(names)
        return _contrasts(
            of_all, names, [2 / runs] * len(names[1:]), "max-t on logs, variation between starts included"
        )
    pairs = {name: _pair(rows, names[0], name) for name in names[1:]}
    enough = {name: pair for name, pair in pairs.items() if len(pair[0]) >= POINTS_ONLY_BELOW}
    return {name: one_of(paired(*pair), len(pairs)) for name, pair in enough.items()}


def _own_spreads(spreads: Spreads, names: Sequence[str], blocks: str) -> dict[str, Estimate]:
    """Every level against the first, where some have a spread of their own."""
    apart = [name for place, name in enumerate(names) if place in spreads.apart]
    listed = ", ".join(apart) if len(apart) <= MOST_NAMED else f"{len(apart)} levels"
    method = f"max-t on logs, {blocks}, own variance of {listed} (parametric bootstrap)"
    units = [float(1 / spreads.runs[0] + 1 / spreads.runs[place]) for place in range(1, len(names))]
    return _contrasts(family(spreads), names, units, method)


def _contrasts(of_all: Family, names: Sequence[str], units: Sequence[float], method: str) -> dict[str, Estimate]:
    """Estimates with the largest t of all. `units`: variance of each difference, in units of that of a run."""
    from scipy import special

    estimates = {}
    for place, (name, one) in enumerate(zip(names[1:], of_all.contrasts, strict=True)):
        difference, se, df = float(one.difference), math.sqrt(float(one.variance)), float(one.df)
        alone = float(special.stdtrit(df, 0.975))
        wide, narrow = (of_all.factor(level) * alone for level in (0.95, 0.90))
        s = se / math.sqrt(units[place])
        p = of_all.p(place) if se >= NO_SPREAD else None
        estimates[name] = _simultaneous(difference, se, df, s, (wide, narrow), p, method)
    return estimates


def _incomplete(fitted: Fit, names: Sequence[str]) -> dict[str, Estimate]:
    """Every level against the first in blocks of which some lack a level, by the comparisons within each block."""
    baseline, *others = names
    contrasts = {name: fitted.contrast(baseline, name) for name in others}
    if fitted.s < NO_SPREAD:
        return {name: t_estimate(difference, 0.0, 1, 0.0, INCOMPLETE) for name, (difference, _) in contrasts.items()}
    largest = largest_of(fitted.correlation(baseline, others), fitted.df)
    wide, narrow = (float(np.quantile(largest, level)) for level in (0.95, 0.90))
    return {
        name: _simultaneous(
            difference,
            se,
            fitted.df,
            fitted.s,
            (wide, narrow),
            float((largest >= abs(difference) / se).mean()),
            INCOMPLETE,
        )
        for name, (difference, se) in contrasts.items()
    }


def _simultaneous(
    difference: float, se: float, df: float, s: float, critical: tuple[float, float], p: float | None, method: str
) -> Estimate:
    wide, narrow = (factor * se for factor in critical)
    interval, interval_90 = (difference - wide, difference + wide), (difference - narrow, difference + narrow)
    # Without spread the error is nil, and a t test against the margin has nothing to divide by.
    error = se if se >= NO_SPREAD else None
    alpha = _alpha_of(critical[0], df)
    return Estimate(difference, interval, interval_90, p, s, method, se=error, df=df, alpha=alpha, pooled=True)


def _alpha_of(critical: float, df: float) -> float:
    """What is left of alpha for one comparison of a family: the two-sided p of t at the family's critical value."""
    from scipy import special

    return 2 * float(special.stdtr(df, -critical))


def _judge(
    levels: dict[str, list[Observation]], a: str, b: str, estimate: Estimate, metric: Metric, delta: float
) -> Comparison:
    log_a, log_b = (logs([row.value for row in levels[name]]) for name in (a, b))
    return judged(log_a, log_b, estimate, metric, delta, (a, b))


def best_first(rows: Sequence[Observation], metric: Metric) -> list[str]:
    """The levels, best first: by means within blocks if runs are compared within blocks, or by ranks. Empty if gaps in
    blocks leave levels that cannot be compared."""
    fitted = fit(rows, blocked=in_blocks(rows))
    if fitted.rank_lost:
        return []
    sign = -1 if metric.better == "higher" else 1
    by_means = sorted(fitted.levels, key=lambda level: sign * float(fitted.effects[fitted.levels.index(level)]))
    first, *others = by_level(rows)
    if not (pairs := _pairs_by_ranks(rows, first, others)):
        return by_means
    blocked, alone = in_blocks(rows), ranks.of_many(1)
    shifts = {name: rank_estimate(*pair, alone, blocked=blocked).difference for name, pair in pairs.items()}
    by_shifts = sorted([first, *others], key=lambda level: sign * shifts.get(level, 0.0))
    best, second, *rest = by_shifts if _one_of_all_by_ranks(rows, by_shifts[1], by_shifts[0]) else by_means
    # Shifts against a third level need not add up, nor agree with the means.
    shift = _one_of_all_by_ranks(rows, second, best)
    return [second, best, *rest] if shift and sign * shift.difference > 0 else [best, second, *rest]


def _one_of_all_by_ranks(rows: Sequence[Observation], a: str, b: str) -> Estimate | None:
    """The shift of one of all pairs of levels; None if means compare them better, or its runs are too few for ranks."""
    first, *others = by_level(rows)
    (log_a, log_b), blocked = _pair(rows, a, b), in_blocks(rows)
    share = ranks.of_many(math.comb(len(others) + 1, 2))
    possible = ranks.can_reject(len(log_a), len(log_b), share, blocked=blocked)
    if not possible or not _pairs_by_ranks(rows, first, others):
        return None
    return rank_estimate(log_a, log_b, share, blocked=blocked)


def pair_of_all(
    rows: Sequence[Observation], a: str, b: str, metric: Metric, delta: float, starts: Starts = NO_STARTS
) -> Comparison:
    """Level b against a, with an interval that holds though these two were picked from all pairs (Tukey's; by ranks,
    or if levels share starts, Bonferroni's)."""
    levels = by_level(rows)
    blocked = in_blocks(rows)
    if min(len(own) for own in levels.values()) < POINTS_ONLY_BELOW or len(levels) < 3:
        return compare_levels(rows, a, b, metric, delta)
    absorbed = fit(rows, blocked=blocked)
    if absorbed.rank_lost or absorbed.df < 1:
        return compare_levels(rows, a, b, metric, delta)
    estimate = _one_of_all_by_ranks(rows, a, b)
    if estimate is None and blocked and shared_starts(list(levels), starts):
        pair = _pair(rows, a, b)
        if len(pair[0]) < POINTS_ONLY_BELOW:
            return compare_levels(rows, a, b, metric, delta)
        estimate = one_of(paired(*pair), math.comb(len(levels), 2))
    estimate = estimate or _tukey(absorbed, a, b, _TUKEY[blocked])
    return in_units(_judge(levels, a, b, estimate, metric, delta), rows[0].unit)


def _tukey(fitted: Fit, a: str, b: str, method: str) -> Estimate:
    levels = len(fitted.levels)
    difference, se = fitted.contrast(a, b)
    wide, narrow = (critical_of_pairs(levels, fitted.df, level) for level in (0.95, 0.90))
    p = 1 - joint_coverage_of_pairs(abs(difference) / se, levels, fitted.df) if se >= NO_SPREAD else None
    return _simultaneous(difference, se, fitted.df, fitted.s, (wide, narrow), p, method)
