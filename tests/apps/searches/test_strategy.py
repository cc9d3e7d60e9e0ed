"""How a search spends its runs."""

from __future__ import annotations

import pytest

from apps.searches.strategy import MOST_ROUNDS, Round, Sizes, finalists, next_round
from stats.stopping.racing import Standing
from tests.search.simulation import search
from tests.search.surrogate import Surrogate

SIZES = Sizes(candidates=4, blocks=1, finalists=2, confirmation_blocks=5)
RESERVE = SIZES.confirmation_runs()


def at(mean: float, blocks: int = 1, low: float | None = None) -> Standing:
    return Standing(blocks, mean, low, None if low is None else 2 * mean - low, None)


@pytest.mark.parametrize(
    ("left", "standings", "expected"),
    [
        (100, {}, Round([], 4)),
        (100, {1: at(0.1), 2: at(0.3), 3: at(-0.2)}, Round([2], 3)),
        (100, {1: at(0.1), 2: at(0.3, MOST_ROUNDS)}, Round([1], 3)),
        (RESERVE + 3, {}, Round([], 2)),
        (RESERVE + 6, {1: at(0.1), 2: at(0.3), 3: at(0.2)}, Round([2, 3, 1], 1)),
        (RESERVE + 1, {1: at(0.1)}, None),
        (RESERVE, {}, None),
    ],
)
def test_a_round_runs_the_best_again_beside_new_ones_and_leaves_the_runs_of_the_confirmation(
    left: int, standings: dict[int, Standing], expected: Round | None
) -> None:
    assert next_round(SIZES, standings, left) == expected


def test_trials_without_a_result_take_the_places_of_new_ones() -> None:
    assert next_round(SIZES, {}, 100, waiting=3) == Round([], 1)


def test_finalists_are_those_whose_intervals_begin_highest_and_others_only_if_no_one_has_an_interval() -> None:
    assert finalists(SIZES, {1: at(0.5), 2: at(0.2, 4, 0.1), 3: at(0.3, 4, 0.05), 4: at(0.1, 4, -0.1)}) == [2, 3]
    assert finalists(SIZES, {1: at(0.5), 2: at(0.1), 3: at(0.2), 4: at(-0.1)}) == [1, 3]
    assert finalists(SIZES, {4: at(-0.1)}) == []


def test_a_search_on_a_noisy_surrogate_with_faulty_regions_confirms_a_gain_that_holds() -> None:
    found = search(Surrogate(noise=0.05), runs=75, seed=3, sampler="tpe")

    assert found.confirmed and found.gain > 0.15 and not found.unstable
