"""What any rule can achieve that judges by the largest t and the baseline's variance: a bound by linear programming."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import linprog

from stats.comparison.family import critical
from tests.truth.scenarios.levels import DIFFERENCE

CAMPAIGNS, RUNS, SD = 60_000, 5, 0.01
RATIOS = (1.0, 1.25, 1.5, 2.0, 3.0)  # of the baseline's standard deviation to that of the others
FALSE_AT_MOST = 0.06
ALIKE = 0.3  # p of the F test above which the intervals have to be Dunnett's
VARIANCES = np.concatenate([[0.0], np.exp(np.linspace(np.log(0.25), np.log(30), 16)), [np.inf]])
LARGEST_T = np.concatenate([[0.0], np.arange(1.6, 8, 0.1), [np.inf]])

pytestmark = pytest.mark.slow
Values = NDArray[np.float64]


def statistics(rng: np.random.Generator, levels: int, ratio: float, difference: float) -> tuple[Values, Values]:
    """Of campaigns in blocks whose last level differs: the ratio of the baseline's variance to that of the others, and
    |t| of each level against the baseline, with the variance of all."""
    logs = SD * rng.standard_normal((CAMPAIGNS, RUNS, levels))
    logs[:, :, 0] *= ratio
    logs[:, :, -1] += difference
    others = logs[:, :, 1:]
    left = others - others.mean(axis=1, keepdims=True)
    squares = ((left - left.mean(axis=2, keepdims=True)) ** 2).sum(axis=(1, 2))
    df = (RUNS - 1) * (levels - 2)
    own = (logs[:, :, 0] - others.mean(axis=2)).var(axis=1, ddof=1) / (1 + 1 / (levels - 1))
    pooled = (squares + own * (RUNS - 1)) / (df + RUNS - 1)
    means = logs.mean(axis=1)
    return own / squares * df, np.abs(means[:, 1:] - means[:, :1]) / np.sqrt(2 * pooled / RUNS)[:, None]


def most_found(levels: int, *, dunnett_if_alike: bool) -> float:
    """The share of campaigns with equal variances in which the best rule finds the difference that Dunnett's intervals
    find in 80 %. A rule claims a difference with some probability in each cell of variance and largest t."""
    rng = np.random.default_rng(1)
    alike = float(special.fdtri(RUNS - 1, (RUNS - 1) * (levels - 2), 1 - ALIKE))
    dunnett = critical((math.sqrt(0.5),) * (levels - 1), (RUNS - 1) * (levels - 1), 0.95)
    edges = np.sort([*VARIANCES, alike]), np.sort([*LARGEST_T, dunnett])

    def shares(variance: Values, t: Values) -> Values:
        return np.asarray(np.histogram2d(variance, t, edges)[0].ravel() / CAMPAIGNS)

    samples = [statistics(rng, levels, ratio, 0.0) for ratio in RATIOS]
    nulls = [shares(variance, t.max(axis=1)) for variance, t in samples]
    variance, t = statistics(rng, levels, 1.0, DIFFERENCE[levels])
    claims = np.broadcast_to(edges[1][:-1] >= dunnett, [len(each) - 1 for each in edges]).ravel().astype(float)
    fixed = np.repeat((edges[0][:-1] < alike) & dunnett_if_alike, len(edges[1]) - 1)
    bounds = np.where(fixed, claims, [[0.0], [1.0]]).T
    limits = np.full(len(nulls), FALSE_AT_MOST)
    return -float(linprog(-shares(variance, t[:, -1]), A_ub=np.array(nulls), b_ub=limits, bounds=bounds).fun)


@pytest.mark.parametrize("levels", [4, 8])
def test_six_percent_false_alarms_cost_more_than_three_points_of_power(levels: int) -> None:
    found = most_found(levels, dunnett_if_alike=True)

    print(f"{levels} levels: at most {found:.3f} find the difference")  # noqa: T201 - for docs/background/statistics.md
    assert found < 0.80 - 0.03


def test_the_same_holds_for_eight_levels_without_dunnett_s_intervals() -> None:
    found = most_found(8, dunnett_if_alike=False)

    print(f"at most {found:.3f} find the difference")  # noqa: T201 - for docs/background/statistics.md
    assert found < 0.80 - 0.03
