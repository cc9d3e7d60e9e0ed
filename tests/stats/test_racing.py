"""Which candidates go on: the interval over all rounds is right, and results that vary are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats.stopping.racing import standing, unstable

BLOCKS, ROUNDS = 2, 4


def test_an_interval_over_four_rounds_excludes_an_equal_candidate_in_at_most_five_percent() -> None:
    rng = np.random.default_rng(7)
    count = 2000
    ratios = 0.05 * rng.standard_normal((count, ROUNDS, BLOCKS))

    ever = {True: 0, False: 0}
    for each in ratios:
        looks = [standing(each[:done], ROUNDS * BLOCKS) for done in range(1, ROUNDS + 1)]
        ever[any(look.low is not None and (look.low > 0 or (look.high or 0) < 0) for look in looks)] += 1

    error = math.sqrt(0.05 * 0.95 / count)
    assert 0.03 < ever[True] / count < 0.05 + 3 * error


def test_a_candidate_that_is_ten_percent_better_is_promising_after_four_rounds() -> None:
    rng = np.random.default_rng(8)
    found = [standing(0.1 + 0.02 * rng.standard_normal((ROUNDS, BLOCKS)), ROUNDS * BLOCKS) for _ in range(50)]

    assert sum(each.promising for each in found) >= 48
    assert all(each.blocks == 8 and each.low is not None and each.low < each.mean for each in found)


@pytest.mark.parametrize("rounds", [[[0.1]], [[0.1, 0.2]]])
def test_fewer_than_three_blocks_have_no_interval(rounds: list[list[float]]) -> None:
    found = standing(rounds, 8)

    assert (found.low, found.high, found.promising) == (None, None, False)


def test_candidates_whose_results_vary_are_found_and_do_not_hide_each_other() -> None:
    rng = np.random.default_rng(9)
    calm = {f"calm {number}": 0.02 * rng.standard_normal(6) for number in range(6)}
    wild = {"dips": np.array([0.1, -0.6, 0.1, 0.12, -0.55, 0.1]), "two modes": np.array([0.3, -0.3] * 3)}

    assert unstable({**calm, **wild}, least=0.02) == set(wild)


def test_results_that_vary_alike_are_stable_in_99_percent_of_the_candidates() -> None:
    rng = np.random.default_rng(10)
    found = [unstable({str(n): 0.15 * rng.standard_normal(6) for n in range(10)}, least=0.02) for _ in range(200)]

    assert sum(map(len, found)) / 2000 < 0.01


def test_a_variation_below_the_minimum_effect_is_stable() -> None:
    rows = {"a": [0.01, -0.01] * 3, "b": [0.0001, -0.0001] * 3, "c": [0.0001, -0.0001] * 3}

    assert unstable(rows, least=0.02) == set()
