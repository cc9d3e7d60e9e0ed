"""Simulated interim analyses: false positives, and the coverage of the last interval."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from stats.stopping import sequential

CAMPAIGNS = 100_000
DELTA = 0.02

pytestmark = pytest.mark.slow


def simulate(kind: str, least: int, most: int, true: float, seed: int) -> dict[str, float]:
    """Shares of campaigns. `false`: the interval excludes 0 at any analysis. `covers`: at the analysis where the first
    rule stops. `equivalent`: at any analysis. Differences of logs have a standard deviation of 2 % within blocks."""
    differences = np.random.default_rng(seed).normal(true, 0.02 * np.sqrt(2), (CAMPAIGNS, most))
    blocks = range(least, most + 1)
    share = {alpha: [sequential.spent(kind, alpha, n / most) for n in blocks] for alpha in (0.05, 0.10)}
    false, equivalent, covers = (np.zeros(CAMPAIGNS, dtype=bool) for _ in range(3))
    going_on: NDArray[np.bool_] = np.ones(CAMPAIGNS, dtype=bool)
    for place, n in enumerate(blocks):
        observed = differences[:, :n]
        mean, se = observed.mean(axis=1), observed.std(axis=1, ddof=1) / np.sqrt(n)
        p, p_90 = (sequential.nominal(blocks[: place + 1], share[alpha][: place + 1]) for alpha in (0.05, 0.10))
        half, half_90 = (stats.t.isf(each / 2, n - 1) * se for each in (p, p_90))
        false |= np.abs(mean - true) > half
        inside = (mean - half_90 > np.log1p(-DELTA)) & (mean + half_90 < np.log1p(DELTA))
        equivalent |= inside
        stops = going_on & (inside | (np.abs(mean) > half) | (n == most))
        covers |= stops & (np.abs(mean - true) <= half)
        going_on &= ~stops
    return {"false": false.mean(), "covers": covers.mean(), "equivalent": equivalent.mean()}


@pytest.mark.parametrize("kind", sequential.SPENDING)
@pytest.mark.parametrize(("least", "most"), [(3, 5), (3, 10), (5, 12), (5, 30)])
def test_interim_analyses_of_equal_levels_stop_in_at_most_5_percent(kind: str, least: int, most: int) -> None:
    same = simulate(kind, least, most, true=0.0, seed=1)
    beside = simulate(kind, least, most, true=float(np.log1p(DELTA)), seed=2)

    print(kind, least, most, same, "at the margin", beside)  # noqa: T201 - the figures of docs/background/statistics.md
    # Two standard errors of a simulation of this size are 0.0014.
    assert same["false"] <= 0.0514
    assert same["covers"] >= 0.9486
    assert beside["equivalent"] <= 0.0514


def test_unadjusted_interim_analyses_of_equal_levels_stop_in_one_of_six() -> None:
    differences = np.random.default_rng(3).normal(0, 1, (CAMPAIGNS, 10))
    stopped = np.zeros(CAMPAIGNS, dtype=bool)
    for n in range(3, 11):
        stopped |= stats.ttest_1samp(differences[:, :n], 0, axis=1).pvalue < 0.05

    assert 0.16 < stopped.mean() < 0.17
