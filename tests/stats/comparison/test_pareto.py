"""The Pareto front of candidates with two objectives."""

from __future__ import annotations

import numpy as np
import pytest

from stats.comparison.pareto import Pair, ends, front

NOISE = 0.01


def blocks(first: float, second: float, count: int = 4, noise: float = NOISE) -> list[Pair]:
    """Log ratios that alternate around a mean."""
    return [(first + noise * (-1) ** number, second - noise * (-1) ** number) for number in range(count)]


def test_the_front_has_the_candidates_whose_means_no_other_exceeds_in_both() -> None:
    found = front({1: blocks(0.3, 0.1), 2: blocks(0.1, 0.3), 3: blocks(0.05, 0.05)})

    assert found.best == [2, 1]
    assert found.dominated == [3]


def test_a_candidate_within_the_noise_of_the_front_is_not_dominated() -> None:
    found = front({1: blocks(0.3, 0.3), 2: blocks(0.298, 0.29), 3: blocks(0.1, 0.29)})

    assert found.best == [1]
    assert found.possible == [3, 2]  # 3 is clearly worse in one objective only
    assert found.dominated == []


def test_nothing_is_dominated_while_no_candidate_has_two_blocks() -> None:
    found = front({1: blocks(0.3, 0.3, 1), 2: blocks(-0.3, -0.3, 1)})

    assert (found.best, found.possible, found.dominated) == ([1], [2], [])
    assert found.noise.half_widths(1) is None


def test_the_baseline_dominates_a_candidate_that_is_worse_in_both() -> None:
    found = front({1: blocks(-0.3, -0.2), 2: blocks(-0.1, -0.3)})

    assert found.best == []
    assert found.dominated == [1, 2]


@pytest.mark.thorough
def test_a_candidate_that_is_worse_in_one_objective_only_is_called_dominated_in_at_most_5_percent() -> None:
    """The hardest case: by one objective all candidates are equal, so that one false test suffices."""
    rng, wrong, repeats = np.random.default_rng(7), 0, 300
    for _ in range(repeats):
        drawn = rng.normal(0, 0.05, (20, 3, 2))
        drawn[0, :, 1] -= 1.0
        found = front({key: [tuple(pair) for pair in own] for key, own in enumerate(drawn.tolist())})
        wrong += 0 in found.dominated

    assert 0 < wrong / repeats <= 0.05


def test_the_ends_are_the_best_by_each_objective_and_further_ones_lie_between_them() -> None:
    ratios = {1: blocks(0.4, 0.0), 2: blocks(0.39, 0.02), 3: blocks(0.2, 0.2), 4: blocks(0.0, 0.4)}
    found = front(ratios)
    counts = {key: len(each) for key, each in ratios.items()}

    assert ends(found, counts, 2) == [1, 4]
    assert ends(found, counts, 3) == [1, 4, 3]


def test_an_end_with_few_blocks_does_not_replace_one_that_more_blocks_support() -> None:
    found = front({1: blocks(0.21, 0.0, 1), 2: blocks(0.2, 0.01, 8, 0.05), 3: blocks(0.0, 0.3, 8, 0.05)})

    assert ends(found, {1: 1, 2: 8, 3: 8}, 2) == [2, 3]
    mirrored = front({1: blocks(-0.02, 0.23, 1), 2: blocks(0.01, 0.2, 8, 0.05), 3: blocks(0.3, 0.0, 8, 0.05)})
    assert ends(mirrored, {1: 1, 2: 8, 3: 8}, 2) == [3, 2]
