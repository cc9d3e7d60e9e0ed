"""Repeated runs over time: outliers, and changes of the level."""

from __future__ import annotations

import numpy as np
import pytest

from stats import change_points, score, scores

BEFORE = [10110, 10080, 10150, 10095, 10130, 10070, 10120, 10105, 10140, 10090]
DELTA = 0.02


def test_a_run_far_from_those_before_it_is_out_of_line() -> None:
    deviation = score(9850, BEFORE, DELTA)

    assert deviation is not None
    assert (deviation.z, deviation.change_percent, deviation.alert) == (
        pytest.approx(-8.39, abs=0.005),
        pytest.approx(-2.55, abs=0.005),
        True,
    )
    assert deviation.sentence("Run 11") == "Run 11 is out of line with the 10 runs before it: -2.55 % (z -8.39)."


def test_a_run_within_the_usual_variation_is_no_alert() -> None:
    deviation = score(10020, BEFORE, DELTA)

    assert deviation is not None
    assert (deviation.z, deviation.alert) == (pytest.approx(-2.83, abs=0.005), False)


def test_a_change_below_the_margin_is_no_alert() -> None:
    assert not score(9850, BEFORE, 0.05).alert  # type: ignore[union-attr]


def test_nine_runs_give_no_estimate_of_the_variation() -> None:
    assert score(9850, BEFORE[:9], DELTA) is None


def test_runs_without_variation_alert_by_the_margin_alone() -> None:
    assert score(9000, [10000.0] * 10, DELTA).alert  # type: ignore[union-attr]
    assert score(10000, [10000.0] * 10, DELTA).z == 0  # type: ignore[union-attr]


def test_later_runs_are_not_compared_with_an_outlier() -> None:
    deviations = scores([*BEFORE, 9850, 9850, 10100], DELTA)

    assert [one.alert for one in deviations[10:] if one] == [True, True, False]
    assert [one.of for one in deviations[10:] if one] == [10, 10, 10]


def test_ten_in_a_row_are_a_new_level() -> None:
    lower = [value * 0.95 for value in BEFORE]

    deviations = scores([*BEFORE, *lower, *lower], DELTA)

    assert [one.alert for one in deviations[10:20] if one] == [True] * 10
    assert not any(one.alert for one in deviations[20:] if one)


def levels(*means: float, each: int = 20, seed: int = 3) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(value) for mean in means for value in mean * np.exp(rng.normal(0, 0.004, each))]


def test_a_change_is_found_where_it_was_and_how_large() -> None:
    (change,) = change_points(levels(10000, 9500), ["6.1"] * 40, DELTA)

    assert abs(change.at - 20) <= 1
    assert change.change_percent == pytest.approx(-5, abs=0.5)
    assert change.p is not None and change.p < 0.001
    assert "without a known reason" in change.sentence("tps")


def test_up_and_down_again_are_two_changes() -> None:
    changes = change_points(levels(10000, 10500, 10000), ["6.1"] * 60, DELTA)

    assert [round(one.at / 20) for one in changes] == [1, 2]


def test_noise_has_no_change_point() -> None:
    assert not any(change_points(levels(10000, 10000, seed=seed), ["6.1"] * 40, DELTA) for seed in range(20))


def test_a_change_smaller_than_the_margin_is_not_reported() -> None:
    assert change_points(levels(10000, 9850), ["6.1"] * 40, DELTA) == []


def test_a_new_kernel_splits_the_series() -> None:
    (change,) = change_points(levels(10000, 9950), ["6.1"] * 20 + ["6.12"] * 20, DELTA)

    assert (change.at, change.p, change.why) == (20, None, "6.12 instead of 6.1")
    assert change.sentence("tps") == "It changed from 9,990 to 9,952 tps (-0.37 %) with 6.12 instead of 6.1."


def test_few_runs_have_no_change_points() -> None:
    assert change_points([10000, 9000, 8000], ["a"] * 3, DELTA) == []
    assert change_points([], [], DELTA) == []
