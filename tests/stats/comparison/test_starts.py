"""Levels of a block that share a start of the server: a split plot."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as distributions

from stats import Metric, Observation, against_baseline, compare_levels, pair_of_all

TPS = Metric("tps", "tps", "higher")
# Oracle: 4 blocks x A (a start for each level) x B.
Y = [[9.50, 9.53, 9.56, 9.60], [9.47, 9.52, 9.58, 9.61], [9.52, 9.54, 9.55, 9.60], [9.49, 9.53, 9.60, 9.62]]
LEVELS = ("a0 b0", "a0 b1", "a1 b0", "a1 b1")
STARTS = {level: (0, 0, int(level[1])) for level in LEVELS}


def rows(values: list[list[float]] = Y) -> list[Observation]:
    return [
        Observation(level, block, math.exp(y), 4 * block + place)
        for block, own in enumerate(values)
        for place, (level, y) in enumerate(zip(LEVELS, own, strict=True))
    ]


def test_standard_errors_are_those_of_a_split_plot() -> None:
    y = np.array(Y).reshape(4, 2, 2)
    whole = y.mean(axis=2)
    between = ((whole - whole.mean(axis=0) - whole.mean(axis=1, keepdims=True) + whole.mean()) ** 2).sum() / 3
    sub = y - whole[:, :, None] - (y.mean(axis=0) - whole.mean(axis=0)[:, None])[None]
    within = (sub**2).sum() / 6

    same, other, last = against_baseline(rows(), LEVELS[0], TPS, 0.02, STARTS)

    assert same.se == pytest.approx(math.sqrt(2 * within / 4)) and same.df == pytest.approx(6)
    assert other.se == last.se == pytest.approx(math.sqrt(2 / 4 * (between + within / 2)))
    assert other.method == "max-t on logs, variation between starts included"


def test_p_of_the_restarted_level_is_near_that_of_the_split_plot_s_f_test() -> None:
    other = against_baseline(rows(), LEVELS[0], TPS, 0.02, STARTS)[1]
    pooled = against_baseline(rows(), LEVELS[0], TPS, 0.02)[1]

    assert 0.005 < (other.p or 0) < 0.05  # F(A) 32.4 on 1 and 3 has p 0.011
    assert (pooled.p or 0) < 0.001


def test_starts_that_hold_one_level_each_change_nothing() -> None:
    alone = {level: (0, 0, place) for place, level in enumerate(LEVELS)}

    assert against_baseline(rows(), LEVELS[0], TPS, 0.02, alone) == against_baseline(rows(), LEVELS[0], TPS, 0.02)


@pytest.mark.parametrize("nested", [True, False])
def test_starts_within_boots_and_gaps_in_blocks_use_own_differences(nested: bool) -> None:
    levels = (*LEVELS, "a2 b0", "a2 b1")
    rng = np.random.default_rng(2)
    every = [Observation(one, block, math.exp(rng.normal(9, 0.01)), 0) for block in range(5) for one in levels]
    some = every if nested else every[:-1]
    starts = {one: (int(one[1] == "2") if nested else 0, 0, int(one[1])) for one in levels}

    for one in against_baseline(some, levels[0], TPS, 0.02, starts):
        single = compare_levels(some, levels[0], one.b, TPS, 0.02)
        assert one.method == "paired t on logs, within blocks, Bonferroni for 5"
        assert one.se == pytest.approx(single.se) and one.df == single.df
        low, high = one.interval or (0.0, 0.0)
        half = float(distributions.t.isf(0.025 / 5, single.df)) * (single.se or 0.0)
        assert (math.log1p(high / 100) - math.log1p(low / 100)) / 2 == pytest.approx(half)


FIRST, SECOND, CONSTANT = (12, 13, 12, 12, 12), (13, 12, 12, 12, 12), (12,) * 5


@pytest.mark.parametrize(
    "values",
    [
        (CONSTANT, CONSTANT, CONSTANT, CONSTANT),
        (CONSTANT, CONSTANT, FIRST, FIRST),  # no variation within a start
        (FIRST, SECOND, SECOND, FIRST),  # the means of both starts are the same in each block
    ],
)
def test_runs_that_do_not_vary_use_own_differences(values: tuple[tuple[int, ...], ...]) -> None:
    every = [
        Observation(level, block, value, block)
        for level, own in zip(LEVELS, values, strict=True)
        for block, value in enumerate(own)
    ]

    compared = against_baseline(every, LEVELS[0], TPS, 0.02, STARTS)

    for one in compared:
        assert one.method.startswith("paired t on logs, within blocks")
        assert one.interval is not None and all(math.isfinite(end) for end in one.interval)
    assert compared[0].verdict == ("equivalent" if values[0] == values[1] else "undetectable")


def test_the_best_of_all_is_compared_by_own_differences() -> None:
    pair = pair_of_all(rows(), LEVELS[0], LEVELS[3], TPS, 0.02, STARTS)

    assert pair.method == "paired t on logs, within blocks, Bonferroni for 6"


@pytest.mark.parametrize("noisy", [[0], [1], [5], [4, 5, 6, 7]])
def test_levels_with_unlike_variances_use_own_differences(noisy: list[int]) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(0, 0.02, (8, 2)).repeat(4, axis=1) + rng.normal(0, 0.005, (8, 8))
    values[:, noisy] += rng.normal(0, 0.03, (8, len(noisy)))
    names = [f"a{place // 4} b{place % 4}" for place in range(8)]
    every = [
        Observation(name, block, math.exp(y), 0)
        for block, own in enumerate(values)
        for name, y in zip(names, own, strict=True)
    ]

    compared = against_baseline(every, names[0], TPS, 0.02, {name: (0, 0, int(name[1])) for name in names})

    assert {one.method for one in compared} == {"paired t on logs, within blocks, Bonferroni for 7"}
