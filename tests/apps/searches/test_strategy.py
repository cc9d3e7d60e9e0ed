"""How a search spends its runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.searches.strategy import MOST_ROUNDS, NextRound, Sizes, finalists, next_round
from stats.stopping.racing import CandidateStanding
from tests.search.simulation import search
from tests.search.surrogate import Surrogate

SIZES = Sizes(candidates=4, blocks=1, finalists=2, confirmation_blocks=5)
RESERVE = SIZES.confirmation_runs()


def at(mean: float, blocks: int = 1, low: float | None = None) -> CandidateStanding:
    return CandidateStanding(blocks, mean, low, None if low is None else 2 * mean - low)


@pytest.mark.parametrize(
    ("left", "standings", "expected"),
    [
        (100, {}, NextRound([], 4)),
        (100, {1: at(0.1), 2: at(0.3), 3: at(-0.2)}, NextRound([2], 3)),
        (100, {1: at(0.1), 2: at(0.3, MOST_ROUNDS)}, NextRound([1], 3)),
        (RESERVE + 3, {}, NextRound([], 2)),
        (RESERVE + 6, {1: at(0.1), 2: at(0.3), 3: at(0.2)}, NextRound([2, 3, 1], 1)),
        (RESERVE + 3, {1: at(0.1), 2: at(0.3), 3: at(0.2)}, NextRound([2, 3], 0)),
        (RESERVE + 1, {1: at(0.1)}, None),
        (RESERVE, {}, None),
    ],
)
def test_a_round_runs_the_best_again_beside_new_ones_and_leaves_the_runs_of_the_confirmation(
    left: int, standings: dict[int, CandidateStanding], expected: NextRound | None
) -> None:
    assert next_round(SIZES, standings, left) == expected


@pytest.mark.parametrize(
    ("left", "expected"),
    [(100, NextRound([9, 5, 6, 7], 0)), (RESERVE + 9, NextRound([9, 5, 6, 7], 0)), (RESERVE + 3, NextRound([9, 5], 0))],
)
def test_trials_without_a_result_run_before_new_ones_and_leave_the_runs_of_the_confirmation(
    left: int, expected: NextRound
) -> None:
    assert next_round(SIZES, {9: at(0.1)}, left, waiting=[5, 6, 7]) == expected


def test_each_of_several_hosts_runs_every_block() -> None:
    sizes = replace(SIZES, hosts=3)

    assert sizes.least_runs == 3 * SIZES.least_runs
    assert next_round(sizes, {}, sizes.confirmation_runs() + 3 * 3) == NextRound([], 2)
    assert next_round(sizes, {1: at(0.1, MOST_ROUNDS)}, 300) == NextRound([1], 3)


def test_finalists_have_the_highest_lower_bounds_and_need_no_interval_only_if_no_trial_has_one() -> None:
    assert finalists(SIZES, {1: at(0.5), 2: at(0.2, 4, 0.1), 3: at(0.3, 4, 0.05), 4: at(0.1, 4, -0.1)}) == [2, 3]
    assert finalists(SIZES, {1: at(0.5), 2: at(0.1), 3: at(0.2), 4: at(-0.1)}) == [1, 3]
    assert finalists(SIZES, {4: at(-0.1)}) == []


@pytest.mark.parametrize(("surface", "least"), [("formula", 0.15), ("measured", 0.05)])
def test_a_search_on_a_noisy_surrogate_with_faulty_regions_confirms_a_gain_that_holds(
    surface: str, least: float
) -> None:
    outcome = search(Surrogate(noise=0.05, surface=surface), runs=100, seed=3, sampler="tpe")

    assert outcome.confirmed and outcome.gain > least and not outcome.unstable
