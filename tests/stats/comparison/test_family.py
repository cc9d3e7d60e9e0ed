"""Simultaneous comparisons with one baseline: critical values, and levels with their own variance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats import Metric, Observation, against_baseline
from stats.comparison.family import critical, critical_of_pairs, joint_coverage, joint_coverage_of_pairs, largest_of
from stats.comparison.spreads import Spreads, family, levels_apart

TPS = Metric("tps", "tps", "higher")
ALIKE = math.sqrt(0.5)
A = (9.210, 9.214, 9.206, 9.212, 9.208)
B = (9.230, 9.190, 9.260, 9.205, 9.245)
C = (9.222, 9.226, 9.219, 9.224, 9.221)


def rows_of(arms: dict[str, tuple[float, ...]], *, blocked: bool) -> list[Observation]:
    """Runs whose logs these are."""
    return [
        Observation(name, place if blocked else 100 * number + place, math.exp(y), 0)
        for number, (name, own) in enumerate(arms.items())
        for place, y in enumerate(own)
    ]


@pytest.mark.parametrize(("shared", "df"), [((ALIKE,) * 3, 12.0), ((0.98, 0.97, 0.6), 7.0), ((0.3, 0.5), 3.0)])
def test_the_probability_of_the_largest_t_is_scipy_s(shared: tuple[float, ...], df: float) -> None:
    from scipy import stats

    shape = np.outer(shared, shared)
    np.fill_diagonal(shape, 1.0)
    bound = np.full(len(shared), 2.5)
    oracle = stats.multivariate_t.cdf(bound, shape=shape, df=df, lower_limit=-bound, maxpts=200_000, random_state=1)

    assert joint_coverage(2.5, shared, df) == pytest.approx(oracle, abs=3e-4)


@pytest.mark.parametrize(("others", "df", "expected"), [(2, 4, 3.31), (3, 12, 2.683), (7, 28, 2.784)])
def test_critical_values_are_dunnett_s(others: int, df: int, expected: float) -> None:
    assert critical((ALIKE,) * others, df, 0.95) == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize(("levels", "df"), [(3, 4), (5, 22), (20, 60)])
def test_all_pairs_have_scipy_s_studentized_range(levels: int, df: int) -> None:
    from scipy.stats import studentized_range

    expected = studentized_range.ppf(0.95, levels, df) / math.sqrt(2)

    assert critical_of_pairs(levels, df, 0.95) == pytest.approx(expected, rel=1e-4)
    assert joint_coverage_of_pairs(2.2, levels, df) == pytest.approx(
        studentized_range.cdf(2.2 * math.sqrt(2), levels, df), abs=3e-5
    )


def test_contrasts_with_any_correlation_have_the_same_critical_value() -> None:
    correlation = np.full((3, 3), 0.5) + 0.5 * np.eye(3)

    assert np.quantile(largest_of(correlation, 12), 0.95) == pytest.approx(2.683, abs=0.03)


def test_two_hundred_levels_hold_together_at_once() -> None:
    assert 3.4 < critical((ALIKE,) * 200, 400, 0.95) < 3.8


def test_a_level_with_more_variation_does_not_hide_a_difference_of_another() -> None:
    by_level = {
        one.b: one for one in against_baseline(rows_of({"a": A, "b": B, "c": C}, blocked=False), "a", TPS, 0.02)
    }

    low, high = by_level["c"].interval or (0.0, 0.0)
    # Games and Howell's interval of all pairs is [0.71, 1.79] %; a pooled spread gives [-1.56, 4.14] %.
    assert 0.7 < low < 1.24 < high < 1.8
    assert "own variance of b" in by_level["c"].method
    assert by_level["b"].verdict == "undetectable"


def test_similar_variances_are_pooled() -> None:
    arms = {"a": A, "c": C, "d": tuple(y + 0.01 for y in A)}

    comparisons = against_baseline(rows_of(arms, blocked=False), "a", TPS, 0.02)

    assert {one.method for one in comparisons} == {"Dunnett on logs"}


def test_within_blocks_the_noise_of_a_level_is_that_beside_the_others() -> None:
    noise = np.random.default_rng(1)
    blocks = noise.normal(0, 0.05, (6, 1))
    logs = blocks + noise.normal(0, 1, (6, 4)) * [0.03, 0.002, 0.002, 0.002]

    of_all = family(Spreads(logs, True, frozenset({0})))

    assert 0 in levels_apart(logs, blocked=True).apart
    own = (logs[:, 0] - logs[:, 1:].mean(axis=1)).var(ddof=1)
    left = logs[:, 1:] - logs[:, 1:].mean(axis=0) - logs[:, 1:].mean(axis=1, keepdims=True) + logs[:, 1:].mean()
    expected = own / 6 + (left**2).sum() / 10 * (2 / 3) / 6
    assert float(of_all.contrasts[0].variance) == pytest.approx(expected)
    assert 5 <= float(of_all.contrasts[0].df) < 6
    assert 1 < of_all.factor(0.95) < 1.3  # the baseline's noise is in all three: they are nearly one comparison


def test_a_contrast_s_p_is_small_exactly_where_its_interval_excludes_zero() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        arms = {name: tuple(rng.normal(0, sd, 5)) for name, sd in (("a", 0.05), ("b", 0.01), ("c", 0.01), ("d", 0.01))}
        for one in against_baseline(rows_of(arms, blocked=True), "a", TPS, 0.02):
            low, high = one.interval or (0.0, 0.0)
            assert one.p is not None
            assert (one.p < 0.05) == (low > 0 or high < 0)


def test_with_a_missing_run_p_and_interval_agree() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        arms = {name: tuple(0.015 * (name == "d") + rng.normal(0, 0.01, 5)) for name in "abcd"}
        rows = rows_of(arms, blocked=True)[:-1]
        for one in against_baseline(rows, "a", TPS, 0.02):
            low, high = one.interval or (0.0, 0.0)
            assert one.p is not None
            assert (one.p < 0.05) == (low > 0 or high < 0)


def test_levels_of_unequal_numbers_of_runs_without_blocks_keep_their_places() -> None:
    logs = np.array([[0.0, 0.1, 1.0], [0.01, 0.11, 1.3], [0.02, np.nan, 0.7], [0.015, np.nan, np.nan]])

    of_all = family(levels_apart(logs, blocked=False))

    assert float(of_all.contrasts[0].difference) == pytest.approx(0.105 - 0.01125)
    assert float(of_all.contrasts[1].difference) == pytest.approx(1.0 - 0.01125)
    assert np.isfinite(of_all.largest).all()
