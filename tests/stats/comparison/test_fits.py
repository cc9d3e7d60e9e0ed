"""Least squares with absorbed blocks and levels, against statsmodels, which solves all of it at once."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.stats import t
from statsmodels.regression.linear_model import GLS, OLS

import stats
from stats import Observation
from stats.comparison.fits import fit
from stats.model import by_level, logs


def design(levels: int, blocks: int, lost: float = 0.0, again: int = 1, seed: int = 4) -> list[Observation]:
    """Levels and blocks with effects of their own; a share is `lost`, and each ran `again` times in a block."""
    chance = np.random.default_rng(seed)
    of_level, of_block = chance.normal(0, 0.05, levels), chance.normal(0, 0.02, blocks)
    rows = []
    for block in range(blocks):
        for level in chance.permutation(levels):
            for _ in range(again):
                value = 1000 * np.exp(of_level[level] + of_block[block] + chance.normal(0, 0.01))
                rows.append(Observation(f"level {level}", block, float(value), len(rows)))
    return [row for row in rows if chance.random() >= lost]


def solved(rows: list[Observation], *, blocked: bool) -> tuple[OLS, list[str]]:
    levels, blocks = list(by_level(rows)), sorted({row.block for row in rows})[1:] if blocked else []
    columns = [[row.level == level for row in rows] for level in levels]
    columns += [[row.block == block for row in rows] for block in blocks]
    return OLS(logs([row.value for row in rows]), np.array(columns, dtype=float).T).fit(method="qr"), levels


@pytest.mark.parametrize(
    ("rows", "blocked"),
    [
        (design(4, 5), True),
        (design(4, 5, again=2), True),
        (design(6, 30, lost=0.2), True),
        (design(27, 40, lost=0.03), True),
        (design(5, 6, lost=0.1), False),
    ],
    ids=["complete", "twice in a block", "a fifth is missing", "many with a few gaps", "without blocks"],
)
def test_the_fit_equals_that_of_the_whole_model(rows: list[Observation], blocked: bool) -> None:
    whole, levels = solved(rows, blocked=blocked)

    fitted = fit(rows, blocked=blocked)

    assert fitted.levels == levels and not fitted.rank_lost
    assert fitted.df == whole.df_resid
    assert fitted.s == pytest.approx(np.sqrt(whole.mse_resid), rel=1e-9)
    for level in levels[1:]:
        weights = np.zeros(len(whole.params))
        weights[levels.index(level)], weights[0] = 1.0, -1.0
        contrast = whole.t_test(weights)
        expected = (float(np.squeeze(contrast.effect)), float(np.squeeze(contrast.sd)))
        assert fitted.contrast(levels[0], level) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    restriction = np.zeros((len(levels) - 1, len(whole.params)))
    restriction[:, 0] = -1.0
    restriction[np.arange(len(levels) - 1), np.arange(1, len(levels))] = 1.0
    assert fitted.levels_p == pytest.approx(float(whole.f_test(restriction).pvalue), rel=1e-6, abs=1e-12)


def test_levels_that_never_share_a_block_cannot_be_separated_from_it() -> None:
    rows = [Observation("a", 0, 10.0, 0), Observation("b", 0, 11.0, 1), Observation("a", 1, 10.1, 2)]
    apart = [Observation("c", 2, 12.0, 3), Observation("d", 2, 12.5, 4), Observation("c", 3, 12.1, 5)]

    assert fit([*rows, *apart], blocked=True).rank_lost
    assert not fit(rows, blocked=True).rank_lost


def test_figures_without_variation_have_no_p() -> None:
    rows = [Observation(level, block, 10.0, block) for block in range(3) for level in "ab"]

    fitted = fit(rows, blocked=True)

    assert (fitted.s, fitted.levels_p) == (pytest.approx(0.0, abs=1e-12), None)
    assert fitted.contrast("a", "b") == pytest.approx((0.0, 0.0), abs=1e-12)


def slopes_by_block_variance(rows: list[Observation], ratios: list[float]) -> list[tuple[float, float, float]]:
    """(restricted log likelihood, slope over the order, its standard error) of the whole model, by generalised least
    squares, for each variance of blocks in units of a run's."""
    levels = list(by_level(rows))
    columns = [[row.level == level for row in rows] for level in levels] + [[row.order for row in rows]]
    design, y = np.array(columns, dtype=float).T, logs([row.value for row in rows])
    same_block = np.array([[one.block == other.block for other in rows] for one in rows], dtype=float)
    solved = []
    for ratio in ratios:
        covariance = np.eye(len(rows)) + ratio * same_block
        whole = GLS(y, design, sigma=covariance).fit()
        sizes = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(whole.normalized_cov_params)[1]
        likelihood = -(sizes + whole.df_resid * np.log(whole.ssr)) / 2
        solved.append((float(likelihood), float(whole.params[-1]), float(whole.bse[-1])))
    return solved


def test_drift_of_few_runs_averages_the_slopes_of_the_whole_model_over_the_variance_of_blocks() -> None:
    rows = design(2, 5, seed=11)
    ratios = np.concatenate([[0.0], np.geomspace(0.03, 300, 24)])
    likelihood, slopes, errors = map(np.array, zip(*slopes_by_block_variance(rows, list(ratios)), strict=True))
    weights = np.exp(likelihood - likelihood.max()) * np.gradient(ratios) / (1 + ratios)
    weights /= weights.sum()
    df = len(rows) - 3 - 2  # two for the unknown size of the noise

    estimate = stats.order_trend(rows, 0.02)

    assert estimate.per_run_percent == pytest.approx(100 * np.expm1(weights @ slopes), rel=1e-9)
    ends = np.log1p(np.array(estimate.interval) / 100)
    for end, share in zip(ends, (0.025, 0.975), strict=True):
        assert weights @ t.cdf((end - slopes) / errors, df) == pytest.approx(share, abs=1e-9)
    below = float(weights @ t.cdf(-slopes / errors, df))
    assert estimate.p == pytest.approx(2 * min(below, 1 - below), rel=1e-6)


def test_levels_that_ran_one_after_the_other_have_no_drift_of_their_own() -> None:
    rows = [Observation("a", 0, 10.0, 0), Observation("b", 0, 11.0, 1), Observation("a", 0, 10.2, 0)]
    rows += [Observation("b", 0, 11.1, 1)]

    assert stats.order_trend(rows, 0.02).per_run_percent is None


def test_a_campaign_of_13_554_runs_is_solved_while_a_page_waits() -> None:
    rows = design(54, 251, lost=0.004)
    begun = time.process_time()

    fitted = fit(rows, blocked=True)

    assert time.process_time() - begun < 1.0
    assert not fitted.rank_lost


def test_levels_with_equal_means_have_a_p_of_1() -> None:
    """What levels explain is then rounding, which may be below 0."""
    chance = np.random.default_rng(1)
    values = np.exp(chance.normal(0, 0.01, 7))
    rows = [
        [Observation(f"l{level}", 0, float(value), 0) for level in range(3) for value in chance.permutation(values)]
        for _ in range(50)
    ]

    assert [fit(own, blocked=False).levels_p for own in rows] == pytest.approx([1.0] * 50)
