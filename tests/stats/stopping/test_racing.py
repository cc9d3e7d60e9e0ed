"""The interval of a candidate holds over all rounds, and candidates whose results vary are detected."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats.stopping.racing import standing, unstable

BLOCKS, ROUNDS = 2, 4


@pytest.mark.thorough
def test_an_interval_over_four_rounds_excludes_an_equal_candidate_in_at_most_five_percent() -> None:
    rng = np.random.default_rng(7)
    count = 2000
    ratios = 0.05 * rng.standard_normal((count, ROUNDS, BLOCKS))

    ever = {True: 0, False: 0}
    for each in ratios:
        analyses = [standing(each[:done], ROUNDS * BLOCKS) for done in range(1, ROUNDS + 1)]
        ever[any(one.low is not None and (one.low > 0 or (one.high or 0) < 0) for one in analyses)] += 1

    error = math.sqrt(0.05 * 0.95 / count)
    assert 0.03 < ever[True] / count < 0.05 + 3 * error


def test_a_candidate_that_is_ten_percent_better_is_promising_after_four_rounds() -> None:
    rng = np.random.default_rng(8)
    better = [standing(0.1 + 0.02 * rng.standard_normal((ROUNDS, BLOCKS)), ROUNDS * BLOCKS) for _ in range(50)]

    assert sum(each.promising for each in better) >= 48
    assert all(each.blocks == 8 and each.low is not None and each.low < each.mean for each in better)


@pytest.mark.parametrize("rounds", [[[0.1]], [[0.1, 0.2]]])
def test_fewer_than_three_blocks_have_no_interval(rounds: list[list[float]]) -> None:
    early = standing(rounds, 8)

    assert (early.low, early.high, early.promising) == (None, None, False)


def test_candidates_whose_results_vary_are_unstable_and_do_not_mask_each_other() -> None:
    rng = np.random.default_rng(9)
    calm = {f"calm {number}": 0.02 * rng.standard_normal(6) for number in range(6)}
    wild = {"dips": np.array([0.1, -0.6, 0.1, 0.12, -0.55, 0.1]), "two modes": np.array([0.3, -0.3] * 3)}

    assert unstable({**calm, **wild}, least=0.02) == set(wild)


def test_99_percent_of_candidates_with_equal_variation_are_stable() -> None:
    rng = np.random.default_rng(10)
    false = [unstable({str(n): 0.15 * rng.standard_normal(6) for n in range(10)}, least=0.02) for _ in range(200)]

    assert sum(map(len, false)) / 2000 < 0.01


def test_a_variation_below_the_minimum_effect_is_stable() -> None:
    rows = {"a": [0.01, -0.01] * 3, "b": [0.0001, -0.0001] * 3, "c": [0.0001, -0.0001] * 3}

    assert unstable(rows, least=0.02) == set()
