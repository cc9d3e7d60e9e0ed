"""Comparisons by ranks: the tests are exact, and they are chosen for heavy tails and two modes only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats as scipy_stats

from stats import Metric, Observation, against_baseline, best_first, compare, compare_levels, pair_of_all
from stats.comparison import ranks
from stats.comparison.tails import heavy_tails

TPS = Metric("tps", "tps", "higher")
X = (100.2, 101.1, 99.8, 110.3, 100.7, 100.1, 109.9, 100.5)
Z = (102.4, 103.0, 101.9, 112.6, 102.7, 102.2, 112.1, 102.5)


def two_modes(seed: int, runs: int, *shifts: float, blocks: bool = False) -> list[Observation]:
    """Levels a, b, ... whose runs vary by 1 %; one in five is 10 % slower. The logs of each level are shifted."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, shift in enumerate(shifts):
        logs = shift + rng.normal(0, 0.01, runs) - 0.1 * (rng.random(runs) < 0.2)
        for place, y in enumerate(logs):
            block = place if blocks else number * runs + place
            rows.append(Observation("abcdefgh"[number], block, 1000 * math.exp(y), place))
    return rows


def test_two_levels_with_two_modes_are_compared_by_their_shift() -> None:
    shift = ranks.between(np.array(X), np.array(Z), ranks.of_many(1))

    assert shift.difference == pytest.approx(2.1)
    assert shift.interval == (pytest.approx(1.1), pytest.approx(2.9))
    assert shift.p == pytest.approx(0.0379, abs=5e-5)

    comparison = compare(X, Z, metric=TPS, delta=0.01, blocked=False)
    assert comparison.verdict == "better"
    assert comparison.method == "Hodges-Lehmann shift by ranks, without blocks"
    assert ", 8 runs of each, by ranks, p = 0.038)" in comparison.sentence()


@pytest.mark.parametrize(("n_a", "n_b"), [(8, 8), (9, 20), (30, 25), (50, 50)])
def test_without_blocks_p_is_that_of_scipy_s_exact_mann_whitney_test(n_a: int, n_b: int) -> None:
    rng = np.random.default_rng(n_a)
    a, b = rng.normal(0, 1, n_a), rng.normal(0.6, 1, n_b)

    oracle = scipy_stats.mannwhitneyu(b, a, method="exact").pvalue

    assert ranks.between(a, b, ranks.of_many(1)).p == pytest.approx(oracle, rel=1e-9)


def test_within_blocks_p_counts_the_signs_of_winsorized_ranks() -> None:
    differences = np.random.default_rng(3).normal(0.6, 1, 9)
    scores = np.minimum(np.argsort(np.argsort(np.abs(differences))) + 1, 4)
    observed = abs((np.sign(differences) * scores).sum())
    signs = np.array(np.meshgrid(*[[-1, 1]] * 9)).reshape(9, -1).T

    expected = (np.abs((signs * scores).sum(axis=1)) >= observed).mean()

    assert ranks.within_blocks(np.zeros(9), differences, ranks.of_many(1)).p == pytest.approx(expected)


def test_the_normal_distributions_of_many_runs_continue_the_exact_ones() -> None:
    pairs, signs = ranks._pair_tails(50, 50), ranks._signed_tails(50)
    scores = np.minimum(np.arange(1, 51), 25)

    normal_pairs = ranks._normal_tails(2500, 2500 * 101 / 3)
    normal_signs = ranks._normal_tails(int(scores.sum()), float((scores**2).sum()))

    for exact, normal in ((pairs, normal_pairs), (signs, normal_signs)):
        assert np.abs(exact - normal)[::2].max() < 2e-3


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("digits", [1, 6])
def test_p_and_interval_agree_with_and_without_ties(blocked: bool, digits: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(60):
        a, b = (np.round(rng.standard_t(2, 10) + shift, digits) for shift in (0.0, 1.2))
        for share in (ranks.of_many(1), ranks.of_many(3), ranks.of_baseline((0.7071,) * 3)):
            shift = (ranks.within_blocks if blocked else ranks.between)(a, b, share)
            low, high = shift.interval
            assert (shift.p < 0.05) == (low > 0 or high < 0)
            assert low <= shift.interval_90[0] <= shift.difference <= shift.interval_90[1] <= high


def test_a_shift_of_all_runs_shifts_estimate_and_interval() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.standard_t(2, 12), rng.standard_t(2, 12)
    for method in (ranks.between, ranks.within_blocks):
        before, after = method(a, b, ranks.of_many(1)), method(a, b + 0.25, ranks.of_many(1))
        assert after.difference == pytest.approx(before.difference + 0.25)
        assert after.interval == pytest.approx([end + 0.25 for end in before.interval])


@pytest.mark.parametrize("sds", [(1, 1), (6, 1), (1, 1, 1, 1)])
def test_normal_runs_rarely_have_heavy_tails_whatever_their_spreads(sds: Sequence[float]) -> None:
    rng = np.random.default_rng(9)
    found = [heavy_tails([rng.normal(0, sd, 10) for sd in sds], share_baseline=False) for _ in range(1000)]

    assert 0.03 < np.mean(found) < 0.07


def test_equal_values_and_few_runs_are_left_to_means() -> None:
    equal = np.array([1.0] * 7 + [2.0])

    assert not heavy_tails([equal, equal], share_baseline=False)
    assert not heavy_tails([np.array(X)[:7], np.array(Z)[:7]], share_baseline=False)
    assert compare(X[:7], Z[:7], metric=TPS, delta=0.01, blocked=False).method == "Welch's t on logs"


@pytest.mark.parametrize("blocks", [False, True])
def test_several_levels_with_two_modes_are_compared_with_the_baseline_by_ranks(blocks: bool) -> None:
    rows = two_modes(1, 20, 0.0, 0.0, 0.03, blocks=blocks)

    b, c = against_baseline(rows, "a", TPS, 0.02)

    assert b.by_ranks and c.by_ranks
    assert "by ranks" in c.method
    assert b.verdict == "equivalent" and c.verdict in ("better", "direction_better")
    assert best_first(rows, TPS)[0] == "c"
    assert pair_of_all(rows, "b", "c", TPS, 0.02).by_ranks


def test_one_comparison_of_several_has_a_wider_interval_than_alone() -> None:
    rows = two_modes(1, 20, 0.0, 0.0, 0.03)
    alone = compare_levels([row for row in rows if row.level != "b"], "a", "c", TPS, 0.02)
    _, together = against_baseline(rows, "a", TPS, 0.02)

    assert alone.interval and together.interval
    assert together.interval[0] < alone.interval[0] and together.interval[1] > alone.interval[1]


def test_levels_too_many_for_their_runs_are_compared_by_means() -> None:
    rows = two_modes(4, 8, *[0.0] * 8, blocks=True)
    share = ranks.of_baseline((0.7071,) * 7)

    assert ranks.can_reject(8, 8, share, blocked=True)
    assert not ranks.can_reject(8, 8, ranks.of_baseline((0.7071,) * 15), blocked=True)
    assert len({one.method for one in against_baseline(rows, "a", TPS, 0.02)}) == 1
