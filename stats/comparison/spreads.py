"""Levels whose runs spread more than those of the others, and intervals against a baseline that allow for it.

A pooled spread is too small for a noisy level: false alarms in 5 of 100 campaigns become 26. So a level that clearly
spreads more *stands apart*: its comparisons use its own spread, those of the others pool theirs. The largest t is
simulated with the estimated spreads (a parametric bootstrap), each t as a share of its Satterthwaite critical value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stats.model import NO_SPREAD, Floats

# One-sided p below which a level stands apart: the baseline's is in every comparison, so that it needs less evidence;
# of the others the noisiest is asked for. Chosen by simulation (tests/truth): more costs power where spreads are alike.
P_BASELINE, P_OTHERS = 0.05, 0.03
_CAMPAIGNS, _SEED = 8000, 20130901
# The same within starts of the server: of the baseline, and of all runs of a start against those of the others.
P_BASELINE_IN_STARTS, P_STARTS = 0.10, 0.02
# The most random numbers of a simulation.
_MOST_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Spreads:
    """Logs of shape (runs, levels): rows are blocks where `blocked`, else missing runs are nan. Level 0 is the
    baseline. `apart`: the levels that have a spread of their own; the others share one."""

    logs: Floats
    blocked: bool
    apart: frozenset[int]

    @property
    def runs(self) -> Floats:
        """Of each level."""
        return np.asarray((~np.isnan(self.logs)).sum(axis=0), dtype=np.float64)

    @property
    def pooled(self) -> list[int]:
        return [level for level in range(self.logs.shape[1]) if level not in self.apart]


@dataclass(frozen=True)
class Contrast:
    """A level against the baseline, in logs; arrays where there are several campaigns. `df` is Satterthwaite's."""

    difference: Floats
    variance: Floats
    df: Floats


@dataclass(frozen=True)
class Family:
    """All levels against the baseline: contrasts, and the largest |t| of campaigns without any difference, each
    divided by the t that it has to exceed alone, in ascending order."""

    contrasts: list[Contrast]
    largest: Floats

    def factor(self, level: float) -> float:
        """By how much each interval has to be wider than it would be alone."""
        return float(np.quantile(self.largest, level))

    def p(self, place: int) -> float:
        """Of one contrast, adjusted for all."""
        one = self.contrasts[place]
        ratio = abs(float(one.difference)) / float(one.variance) ** 0.5 / float(_alone(one.df))
        return float((self.largest >= ratio).mean())


def levels_apart(logs: Floats, *, blocked: bool) -> Spreads:
    """The levels with a different variance: one after the other, that with the least p, while p is small enough and two
    others remain to estimate the common one."""
    spreads = Spreads(logs, blocked, frozenset())
    while len(spreads.pooled) > 2:
        level, p = _noisiest(spreads)
        if p >= 1:
            break
        spreads = Spreads(logs, blocked, spreads.apart | {level})
    return spreads


def _noisiest(spreads: Spreads) -> tuple[int, float]:
    """A pooled level and its p as a share of what it may be; 1 or more where it does not stand apart."""
    from scipy import special

    ratios = {}
    for level in spreads.pooled:
        rest = [other for other in spreads.pooled if other != level]
        spread, df = _pooled_variance(spreads.logs, rest, spreads.blocked)
        own = _own_variance(spreads.logs, level, rest, spreads.blocked)
        expected = spread * (1 + spreads.blocked / len(rest))
        if expected < NO_SPREAD**2:
            continue
        p = float(special.fdtrc(spreads.runs[level] - 1, df, own / expected))
        ratios[level] = p / P_BASELINE if level == 0 else p * len(spreads.pooled) / P_OTHERS
    if not ratios:
        return 0, 1.0
    level = min(ratios, key=lambda each: ratios[each])
    return level, ratios[level]


def _pooled_variance(logs: Floats, levels: Sequence[int], blocked: bool) -> tuple[float, int]:
    """Of one run of these levels, with its degrees of freedom."""
    variance, df = _pooled(logs[None], levels, blocked)
    return float(variance[0]), df


def _pooled(logs: Floats, levels: Sequence[int], blocked: bool) -> tuple[Floats, int]:
    """The same of several campaigns: logs of shape (campaigns, runs, levels)."""
    left = _residuals(logs[:, :, list(levels)])
    if blocked:
        left = left - left.mean(axis=2, keepdims=True)
        df = (logs.shape[1] - 1) * (len(levels) - 1)
    else:
        df = int((~np.isnan(logs[0][:, list(levels)])).sum()) - len(levels)
    return (left**2).sum(axis=(1, 2)) / max(df, 1), df


def _residuals(logs: Floats) -> Floats:
    """Each less the mean of its level, over axis 1; 0 if there is no run."""
    missing = np.isnan(logs)
    runs = (~missing).sum(axis=1, keepdims=True)
    if not missing.any():
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))
    means = np.where(missing, 0.0, logs).sum(axis=1, keepdims=True) / runs
    return np.where(missing, 0.0, logs - means)


def _means(logs: Floats) -> Floats:
    """Of each level, over axis 1."""
    return np.asarray(np.nanmean(logs, axis=1) if np.isnan(logs).any() else logs.mean(axis=1))


def _variances(logs: Floats) -> Floats:
    """Of each row's runs."""
    return np.asarray(np.nanvar(logs, axis=1, ddof=1) if np.isnan(logs).any() else logs.var(axis=1, ddof=1))


def _own_variance(logs: Floats, level: int, rest: Sequence[int], blocked: bool) -> float:
    """Of one run of a level; within blocks, of its difference from the mean of the rest."""
    own = logs[:, level] - (logs[:, list(rest)].mean(axis=1) if blocked else 0.0)
    return float(_variances(own[None])[0])


def family(spreads: Spreads) -> Family:
    """Every level against the baseline, with the largest t that their spreads make likely."""
    runs, levels = spreads.logs.shape
    same = _standard(_campaigns(runs, levels), runs, levels) * _standard_deviations(spreads) + 0.0 * spreads.logs
    return _family(contrasts(spreads, spreads.logs[None]), contrasts(spreads, same))


def _campaigns(runs: int, levels: int) -> int:
    return max(500, min(_CAMPAIGNS, _MOST_NUMBERS // (runs * levels)))


def _family(one: Sequence[Contrast], simulated: Sequence[Contrast]) -> Family:
    """Of the contrasts of one campaign, and of simulated ones without any difference."""
    ratios = [abs(each.difference) / np.sqrt(each.variance) / _alone(each.df) for each in simulated]
    largest = np.sort(np.max(ratios, axis=0))
    single = [Contrast(each.difference[0], each.variance[0], each.df[0]) for each in one]
    return Family(single, largest)


@lru_cache(maxsize=16)
def _standard(campaigns: int, runs: int, levels: int) -> Floats:
    return np.random.default_rng(_SEED).standard_normal((campaigns, runs, levels))


def _standard_deviations(spreads: Spreads) -> Floats:
    """Of one run of each level; one whose spread is within that of the others' mean has theirs."""
    usual, _ = _pooled_variance(spreads.logs, spreads.pooled, spreads.blocked)
    deviations = np.full(spreads.logs.shape[1], np.sqrt(usual))
    for level in spreads.apart:
        own = _own_variance(spreads.logs, level, spreads.pooled, spreads.blocked)
        deviations[level] = np.sqrt(max(usual, own - spreads.blocked * usual / len(spreads.pooled)))
    return deviations


def _alone(df: Floats) -> Floats:
    from scipy import special

    return np.asarray(special.stdtrit(df, 0.975))


def contrasts(spreads: Spreads, logs: Floats) -> list[Contrast]:
    """Every level against the baseline, of campaigns of shape (campaigns, runs, levels) with these levels apart."""
    usual, usual_df = _pooled(logs, spreads.pooled, spreads.blocked)
    means = _means(logs)
    # Within blocks: a level apart beside the mean of the others, and that mean beside the other level.
    middle = logs[:, :, spreads.pooled].mean(axis=2) if spreads.blocked else 0.0
    own = {level: _variances(logs[:, :, level] - middle) / spreads.runs[level] for level in spreads.apart}
    rest = usual * (1 - spreads.blocked / len(spreads.pooled))
    runs = spreads.runs

    def contrast(level: int) -> Contrast:
        difference = means[:, level] - means[:, 0]
        apart = [each for each in (0, level) if each in spreads.apart]
        if not apart:
            variance = usual * (1 / runs[0] + 1 / runs[level])
            return Contrast(difference, variance, np.full(len(logs), float(usual_df)))
        if spreads.blocked and len(apart) == 2:
            variance = _variances(logs[:, :, level] - logs[:, :, 0]) / runs[0]
            return Contrast(difference, variance, np.full(len(logs), runs[0] - 1))
        shared = [(rest / runs[each], float(usual_df)) for each in (0, level) if each not in apart]
        return _sum(difference, *((own[each], float(runs[each] - 1)) for each in apart), *shared)

    return [contrast(level) for level in range(1, logs.shape[2])]


def family_of_starts(logs: Floats, starts: Sequence[int]) -> Family:
    """Every level against the first, where the runs of some levels share a start of the server (a split plot).

    `logs`: of shape (blocks, levels); `starts`: of each level, the number of its start in every block."""
    blocks, levels = logs.shape
    own, count = list(starts), max(starts) + 1
    between, within = (float(variance[0]) for variance in _components(logs[None], own)[:2])
    campaigns = _campaigns(blocks, levels + count)
    drawn = _standard(campaigns, blocks, levels + count)
    between_sd = np.sqrt(max(0.0, between - _inner(own) * within))
    same = np.sqrt(within) * drawn[:, :, :levels] + between_sd * drawn[:, :, levels:][:, :, own]
    return _family(_start_contrasts(logs[None], own), _start_contrasts(same, own))


def starts_alike(logs: Floats, starts: Sequence[int]) -> bool:
    """Return whether `family_of_starts` fits: runs within a start vary, means of starts do (else their t has no
    distribution), and no level or start varies more than the others (else no pooled variance fits)."""
    variances = _components(logs[None], starts)[:2]
    vary = all(float(variance[0]) >= NO_SPREAD**2 for variance in variances)
    return vary and not _spreads_differ(logs, starts)


def _spreads_differ(logs: Floats, starts: Sequence[int]) -> bool:
    """Return whether the runs of a level, or of a start, vary more within starts than all others. A level that is alone
    in its start has no variation within it."""
    blocks, levels = logs.shape
    own, sizes = list(starts), np.bincount(starts)
    member = np.equal.outer(np.asarray(own), np.arange(len(sizes))).astype(np.float64)
    left = _residuals(logs[None])[0]
    squares = ((left - (left @ (member / sizes))[:, own]) ** 2).sum(axis=0)
    alone, shared = sizes[own], sizes > 1
    compared = alone > 1
    # A level against the mean of the others in its start, which leaves these and all other starts to compare it with.
    of_level = squares[compared] * alone[compared] / (alone[compared] - 1)
    of_start, df = (squares @ member)[shared], (blocks - 1) * (levels - len(sizes))
    level_p = _larger(of_level, np.full(len(of_level), blocks - 1), float(squares.sum()), df)
    start_p = _larger(of_start, (blocks - 1) * (sizes[shared] - 1), float(squares.sum()), df)
    limits = np.full(len(level_p), P_OTHERS / max(1, len(level_p)))
    limits[0] = P_BASELINE_IN_STARTS if compared[0] else limits[0]
    return bool((level_p < limits).any() or (start_p < P_STARTS / len(start_p)).any())


def _larger(part: Floats, part_df: Floats, total: float, df: int) -> Floats:
    """One-sided p of the F test of a part of a sum of squares against the rest; 1 if there is no rest."""
    from scipy import special

    rest, rest_df = total - part, df - part_df
    usable = (rest_df > 0) & (rest > NO_SPREAD**2)
    ratio = (part / part_df) / (np.where(usable, rest, 1.0) / np.maximum(rest_df, 1))
    return np.where(usable, special.fdtrc(part_df, np.maximum(rest_df, 1), ratio), 1.0)


def _inner(starts: Sequence[int]) -> float:
    """The share of the variance of a run that remains in the mean of a start, on average over starts."""
    return float((1 / np.bincount(starts)).mean())


def _components(logs: Floats, starts: Sequence[int]) -> tuple[Floats, Floats, int, int]:
    """Variance of the means of starts, variance of runs within a start, and their degrees of freedom, of each campaign;
    logs of shape (campaigns, blocks, levels)."""
    _, blocks, levels = logs.shape
    member = np.equal.outer(np.asarray(starts), np.arange(max(starts) + 1)).astype(np.float64)
    of_start = _residuals(logs) @ (member / member.sum(axis=0))
    between_df, within_df = (member.shape[1] - 1) * (blocks - 1), (levels - member.shape[1]) * (blocks - 1)
    within = ((_residuals(logs) - of_start[:, :, list(starts)]) ** 2).sum(axis=(1, 2)) / within_df
    between = ((of_start - of_start.mean(axis=2, keepdims=True)) ** 2).sum(axis=(1, 2)) / between_df
    return between, within, between_df, within_df


def _start_contrasts(logs: Floats, starts: Sequence[int]) -> list[Contrast]:
    """Every level against the first: within a start by the variance of its runs; else that of starts is added."""
    between, within, between_df, within_df = _components(logs, starts)
    means, scale, inner = logs.mean(axis=1), 2 / logs.shape[1], _inner(starts)

    def contrast(level: int) -> Contrast:
        difference = means[:, level] - means[:, 0]
        if starts[level] == starts[0]:
            return Contrast(difference, scale * within, np.full(len(logs), float(within_df)))
        runs = (scale * (1 - inner) * within, float(within_df))
        return _sum(difference, (scale * between, float(between_df)), runs)

    return [contrast(level) for level in range(1, logs.shape[2])]


def _sum(difference: Floats, first: tuple[Floats, float], second: tuple[Floats, float]) -> Contrast:
    """Of two independent variances, each with its degrees of freedom, with Satterthwaite's."""
    variance = first[0] + second[0]
    shared = first[0] ** 2 / first[1] + second[0] ** 2 / second[1]
    safe = np.where(shared > 0, shared, 1.0)
    return Contrast(difference, variance, np.where(shared > 0, variance**2 / safe, first[1]))
