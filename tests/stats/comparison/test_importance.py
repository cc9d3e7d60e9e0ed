"""Importance of settings, against a function whose total Sobol indices are known."""

from __future__ import annotations

import numpy as np
import pytest

from stats.comparison.importance import Importance, VarianceShare, importance, least_trials


def of(count: int, noise: float, *, seed: int = 1) -> Importance:
    """y = 2 a + b of uniform a and b, and c without effect. Without noise, a has 80 % of the variance and b 20 %."""
    rng = np.random.default_rng(seed)
    x = rng.random((count, 3))
    y = 2 * x[:, 0] + x[:, 1] + noise * rng.standard_normal(count)
    blocks = [{number: 1} for number in range(count)]
    return importance(x.tolist(), [False] * 3, y.tolist(), blocks, seed=1)


def test_the_shares_are_the_total_sobol_indices() -> None:
    result = of(60, 0.02)

    shares = [each.mean for each in result.settings]
    assert shares == pytest.approx([0.8, 0.2, 0.0], abs=0.12)
    assert result.skill > 0.95
    assert result.is_resolved


def test_noise_makes_intervals_wider() -> None:
    exact, noisy = of(40, 0.02).settings[0], of(40, 0.4).settings[0]

    assert noisy.high - noisy.low > 2 * (exact.high - exact.low)


def test_an_effect_that_two_settings_have_only_together_counts_for_both() -> None:
    rng = np.random.default_rng(3)
    x = rng.random((80, 2))
    y = (x[:, 0] - 0.5) * (x[:, 1] - 0.5)

    result = importance(x.tolist(), [False, False], y.tolist(), [{n: 1} for n in range(80)], seed=1)

    assert all(each.low > 0.5 for each in result.settings)


@pytest.mark.thorough
def test_settings_without_effect_are_not_resolved() -> None:
    rng = np.random.default_rng(4)
    resolved = 0
    for seed in range(10):
        x, y = rng.random((30, 3)), rng.standard_normal(30)
        resolved += importance(x.tolist(), [False] * 3, y.tolist(), [{n: 1} for n in range(30)], seed).is_resolved

    assert resolved <= 1


@pytest.mark.thorough
def test_the_shared_error_of_a_round_is_not_an_effect_of_settings() -> None:
    rng = np.random.default_rng(6)
    resolved = 0
    for seed in range(10):
        x, rounds = rng.random((48, 3)), np.repeat(np.arange(12), 4)
        y = rng.standard_normal(48) + rng.standard_normal(12)[rounds]
        blocks = [{int(number): 1} for number in rounds]
        resolved += importance(x.tolist(), [False] * 3, y.tolist(), blocks, seed).is_resolved

    assert resolved <= 1


def test_a_conditional_setting_and_choices_are_compared_where_they_apply() -> None:
    rng = np.random.default_rng(5)
    on = rng.random(60) < 0.5
    depth = rng.random(60)
    rows = [[float(use), float(at) if use else None] for use, at in zip(on, depth, strict=True)]
    y = np.where(on, 1 + depth, 0.0) + 0.05 * rng.standard_normal(60)

    result = importance(rows, [True, False], y.tolist(), [{n: 1} for n in range(60)], seed=1)

    assert result.settings[0].mean > result.settings[1].mean > 0.01


def test_the_only_setting_has_all_of_the_variance() -> None:
    rng = np.random.default_rng(2)
    x = rng.random((15, 1))
    y = 2 * x[:, 0] + 0.02 * rng.standard_normal(15)

    [share] = importance(x.tolist(), [False], y.tolist(), [{n: 1} for n in range(15)], seed=1).settings

    assert share.mean == pytest.approx(1, abs=0.02)
    assert share.low < 1 == share.high


def test_a_share_of_settings_that_were_only_tried_together_is_at_most_one() -> None:
    rng = np.random.default_rng(2)
    first = rng.random(40)
    second = first + 0.03 * rng.standard_normal(40)
    y = 10 * (first - second) + 0.05 * rng.standard_normal(40)
    rows = np.clip(np.c_[first, second], 0, 1).tolist()

    result = importance(rows, [False, False], y.tolist(), [{n: 1} for n in range(40)], seed=1)

    assert [(each.mean, each.high) for each in result.settings] == [(1, 1), (1, 1)]


@pytest.mark.parametrize("value", [0.5, 0.3, None])
@pytest.mark.parametrize("is_choice", [False, True])
def test_a_setting_that_does_not_vary_has_no_share(value: float | None, is_choice: bool) -> None:
    rng = np.random.default_rng(2)
    x = rng.random(20)
    y = 2 * x + 0.05 * rng.standard_normal(20)
    rows = [[float(each), value] for each in x]

    result = importance(rows, [False, is_choice], y.tolist(), [{n: 1} for n in range(20)], seed=1)

    assert result.is_resolved
    assert result.settings[1] == VarianceShare(0, 0, 0)


def test_results_that_do_not_vary_have_no_importance() -> None:
    result = importance([[0.1], [0.5], [0.9]], [False], [1.0, 1.0, 1.0], [{1: 1}] * 3, seed=1)

    assert not result.is_resolved


def test_more_settings_need_more_trials() -> None:
    assert [least_trials(count) for count in (1, 5, 8)] == [15, 15, 24]
