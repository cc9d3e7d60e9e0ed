"""Effects and trends of autocorrelated samples, such as rates of a database."""

from __future__ import annotations

import numpy as np
import pytest

from stats import Trend, trend
from stats.trends.dependence import Averaged, autocorrelated_effect

DELTA = 0.02


def test_a_wide_interval_denies_no_trend() -> None:
    estimate = Trend(4.66, -0.40, 9.40, flagged=False, negligible=False)

    assert estimate.sentence() == "Trend is inconclusive: +4.66 % (95 % CI -0.40 to +9.40 %) after the warm-up."


def test_an_interval_within_the_margin_denies_a_trend() -> None:
    estimate = trend(1000 + np.random.default_rng(2).normal(0, 5, 300), DELTA)

    assert estimate is not None and estimate.negligible
    assert estimate.sentence().startswith("No relevant trend: ")


def test_a_line_without_noise_has_no_width() -> None:
    estimate = trend(np.linspace(990, 1010, 100), 0.01)

    assert estimate is not None and estimate.flagged
    assert (estimate.low_percent, estimate.high_percent) == (estimate.total_percent, estimate.total_percent)


def test_independent_values_have_the_interval_of_least_squares() -> None:
    from scipy import stats

    y, x = np.random.default_rng(3).normal(0, 1, 2000), np.arange(2000.0)

    effect = autocorrelated_effect(y, x)

    plain = stats.linregress(x, y)
    assert effect is not None
    low, high = effect.interval()
    assert effect.estimate == pytest.approx(plain.slope, rel=0.1)
    assert (high - low) / 2 == pytest.approx(1.96 * plain.stderr, rel=0.1)


@pytest.mark.parametrize("other", [-10.0, 10.0])
@pytest.mark.parametrize("df", range(2, 60))
def test_a_point_with_all_the_weight_has_its_own_interval(df: int, other: float) -> None:
    from scipy import stats

    effect = Averaged(np.array([0.0, other]), np.ones(2), np.array([1.0, 0.0]), float(df))

    low, high = effect.interval()

    assert (low, high) == pytest.approx(stats.t.interval(0.95, df), abs=1e-6)


def test_four_values_have_no_autocorrelation_to_estimate() -> None:
    assert autocorrelated_effect(np.arange(4.0), np.arange(4.0)) is None
    assert trend([1.0, 2.0, 1.0, 2.0], DELTA) is None
