"""Variation between campaigns: the difference of identical runs from one campaign to the next, beyond their own noise.

Two campaigns are two days: caches, neighbours, temperatures and data files differ, for all runs of a day alike. So the
runs of one campaign do not show it; the host's history of identical runs in several campaigns does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stats.comparison.pairs import Estimate, compare_arms, judged, t_estimate, welch
from stats.model import NO_SPREAD, POINTS_ONLY_BELOW, Comparison, Floats, Metric, logs

# Three campaigns of one thing; of two, the interval would be 13 standard errors wide.
FEWEST_DF = 2
NOT_INCLUDED = (
    "Variation between campaigns is not included, so no difference is claimed: too few identical runs in 3 campaigns."
)


@dataclass(frozen=True)
class Cell:
    """Runs of one thing (`group`) in one campaign; `values` are above zero."""

    group: str
    campaign: str
    values: Sequence[float]


@dataclass(frozen=True)
class Between:
    """Variance of log means between campaigns, and of one run within them; `df`: degrees of freedom of the former."""

    variance: float
    within: float
    df: int


def between_campaigns(cells: Sequence[Cell]) -> Between | None:
    """REML of log(y) ~ group + (1 | campaign), where groups that ran in one campaign only add nothing; None if there
    are too few campaigns."""
    campaigns_of: dict[str, set[str]] = {}
    for cell in cells:
        campaigns_of.setdefault(cell.group, set()).add(cell.campaign)
    often = [cell for cell in cells if len(campaigns_of[cell.group]) > 1]
    groups, campaigns = sorted({cell.group for cell in often}), sorted({cell.campaign for cell in often})
    arms = [logs(cell.values) for cell in often]
    if not arms:
        return None
    fixed = _indicators([cell.group for cell in often], groups)
    of_campaign = _indicators([cell.campaign for cell in often], campaigns)
    df = int(np.linalg.matrix_rank(np.hstack([fixed, of_campaign]))) - len(groups)
    if df < FEWEST_DF:
        return None
    means = np.array([arm.mean() for arm in arms])
    squares = sum(float(((arm - arm.mean()) ** 2).sum()) for arm in arms)
    errors = np.array([1 / len(arm) for arm in arms])
    return _reml(means, errors, fixed, of_campaign @ of_campaign.T, squares, sum(map(len, arms)) - len(arms), df)


def _indicators(names: Sequence[str], columns: Sequence[str]) -> Floats:
    """A row for each name, with 1 in its column."""
    return np.array(np.equal.outer(np.array(names), np.array(columns)), dtype=np.float64)


def _reml(
    means: Floats, errors: Floats, fixed: Floats, shared: Floats, squares: float, within_df: int, df: int
) -> Between:
    """`errors`: variances of the means in units of that of a run; `shared`: 1 where two means are of one campaign."""
    from scipy import optimize

    def fit(ratio: float) -> tuple[float, float]:
        covariance = ratio * shared + np.diag(errors)
        inverse = np.linalg.inv(covariance)
        information = fixed.T @ inverse @ fixed
        left = means - fixed @ np.linalg.solve(information, fixed.T @ inverse @ means)
        free = within_df + len(means) - fixed.shape[1]
        variance = max((squares + float(left @ inverse @ left)) / free, NO_SPREAD**2)
        size = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(information)[1]
        return free * math.log(variance) + float(size), variance

    minimum = optimize.minimize_scalar(lambda x: fit(math.exp(x))[0], bounds=(-14.0, 14.0), method="bounded")
    ratio = math.exp(float(minimum.x))
    if fit(0.0)[0] <= fit(ratio)[0]:
        ratio = 0.0
    within = fit(ratio)[1]
    return Between(ratio * within, within, df)


def compare_campaigns(
    a: Sequence[float],
    b: Sequence[float],
    between: Between | None,
    *,
    metric: Metric,
    delta: float,
    names: tuple[str, str] = ("A", "B"),
    campaigns: tuple[int, int] = (1, 1),
    of: int = 1,
) -> Comparison:
    """B against A, whose runs are of other campaigns. Without `between`, the verdict is inconclusive."""
    log_a, log_b = logs(a), logs(b)
    if between is None or min(len(log_a), len(log_b)) < POINTS_ONLY_BELOW:
        plain = compare_arms(log_a, log_b, metric, delta, blocked=False, names=names, of=of)
        if plain.interval is None:
            return plain
        method = f"{plain.method}; variation between campaigns not included"
        return replace(plain, verdict="undetectable", p=None, runs_needed=None, method=method, caveat=NOT_INCLUDED)
    estimate = _widened(welch(log_a, log_b), between, campaigns, of)
    # More runs of the same campaigns do not reduce the variation between these.
    return replace(judged(log_a, log_b, estimate, metric, delta, names), runs_needed=None, mde_percent=None)


def _widened(estimate: Estimate, between: Between, campaigns: tuple[int, int], of: int) -> Estimate:
    """With the variance between campaigns; degrees of freedom are at most those of its estimate."""
    from scipy import stats

    added = between.variance * (1 / campaigns[0] + 1 / campaigns[1])
    se = math.sqrt((estimate.se or 0.0) ** 2 + added)
    df = min(float(between.df), estimate.df or float(between.df))
    method = f"{estimate.method}, with variation between campaigns (REML, {between.df} df)"
    one = t_estimate(estimate.difference, se, df, estimate.s, method)
    if of < 2 or one.se is None:
        return one
    wide, narrow = (float(stats.t.isf(alpha / (2 * of), df)) * se for alpha in (0.05, 0.10))
    ends, ends_90 = ((one.difference - half, one.difference + half) for half in (wide, narrow))
    return replace(
        one,
        interval=ends,
        interval_90=ends_90,
        p=min(1.0, of * (one.p or 0.0)),
        method=f"{method}, Bonferroni for {of}",
    )
