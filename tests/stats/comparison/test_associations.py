""" "What changed with it": many figures against the baseline, compared with scipy and statsmodels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from stats import Observation, associations

Floats = NDArray[np.float64]


def rows(**levels: Sequence[float]) -> list[Observation]:
    """One run of each level in each block."""
    return [
        Observation(level, block, float(value), block * len(levels) + place)
        for place, (level, values) in enumerate(levels.items())
        for block, value in enumerate(values)
    ]


def alone(**levels: Sequence[float]) -> list[Observation]:
    """Runs that share no block."""
    observations = rows(**levels)
    return [Observation(row.level, place, row.value, place) for place, row in enumerate(observations)]


def drawn(figures: int = 12, runs: int = 6) -> dict[str, tuple[Floats, Floats]]:
    rng = np.random.default_rng(7)
    return {
        f"f{number}": (rng.lognormal(0, 0.1, runs), rng.lognormal(0.05 * number, 0.1, runs))
        for number in range(figures)
    }


def test_ratios_are_those_of_scipy_s_paired_t_test_adjusted_by_statsmodels() -> None:
    data = drawn()

    by_figure = {one.figure: one for one in associations({k: rows(a=a, b=b) for k, (a, b) in data.items()}, "a", data)}

    p = [scipy_stats.ttest_rel(np.log(b), np.log(a)).pvalue for a, b in data.values()]
    q = multipletests(p, method="fdr_bh")[1]
    assert [by_figure[name].p for name in data] == pytest.approx(p)
    assert [by_figure[name].q for name in data] == pytest.approx(q)
    many = int((q <= 0.05).sum())
    for name, (a, b) in data.items():
        ends = scipy_stats.ttest_rel(np.log(b), np.log(a)).confidence_interval(1 - many * 0.05 / len(data))
        assert [by_figure[name].low, by_figure[name].high] == pytest.approx(
            [100 * np.expm1(ends.low), 100 * np.expm1(ends.high)]
        )
        assert by_figure[name].differs == (by_figure[name].low * by_figure[name].high > 0)


def test_without_blocks_differences_are_those_of_welch_s_t_test() -> None:
    data = drawn(figures=4)

    by_figure = {one.figure: one for one in associations({k: alone(a=a, b=b) for k, (a, b) in data.items()}, "a")}

    tests = [scipy_stats.ttest_ind(b, a, equal_var=False) for a, b in data.values()]
    assert [by_figure[name].p for name in data] == pytest.approx([each.pvalue for each in tests])
    assert [by_figure[name].change for name in data] == pytest.approx([b.mean() - a.mean() for a, b in data.values()])


def test_the_largest_standardised_effect_comes_first() -> None:
    figures = {
        "large but noisy": rows(a=[100, 120, 80, 110, 90], b=[150, 200, 130, 170, 150]),
        "small but sure": rows(a=[100, 101, 99, 100, 100], b=[110, 111, 109.5, 110, 110]),
    }

    assert [one.figure for one in associations(figures, "a", figures)] == ["small but sure", "large but noisy"]


def test_levels_that_never_vary_come_apart_only_as_surely_as_their_order_is_random() -> None:
    (five,) = associations({"pages": rows(a=[0] * 5, b=[128] * 5)}, "a", ["pages"])
    (eight,) = associations({"pages": alone(a=[0] * 8, b=[128] * 8)}, "a")

    assert (five.p, five.differs, five.change, five.effect) == (2**-4, False, 128, None)
    assert eight.differs and eight.p == pytest.approx(2 / 12870)


def test_constant_and_rare_figures_have_no_association() -> None:
    figures = {"constant": rows(a=[3, 3, 3], b=[3, 3, 3]), "rare": rows(a=[1, 2], b=[3, 5])}

    assert associations(figures, "a") == []


@pytest.mark.parametrize("missing", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_counts_as_missing(missing: float) -> None:
    whole = {"sure": rows(a=[1, 1.1, 1.05, 1.02, 0.99], b=[2, 2.1, 2.05, 2.02, 1.98])}
    gaps = {"gap": rows(a=[1, missing, 1.05, 1.02, 0.99], b=[2, 2.1, 2.05, 2.02, missing])}
    rare = {"rare": rows(a=[missing, missing, 1, 2, 3], b=[2, 3, missing, 4, 5])}

    by_figure = {one.figure: one for one in associations(whole | gaps | rare, "a", {"sure", "gap"})}

    assert set(by_figure) == {"sure", "gap"}
    assert (by_figure["gap"].n, by_figure["gap"].is_ratio, by_figure["gap"].before) == (
        3,
        True,
        pytest.approx(3.07 / 3),
    )


def test_a_level_alone_has_nothing_to_be_compared_with() -> None:
    assert associations({"alone": rows(a=[1, 2, 3]), "other": rows(b=[1, 2, 3]), "empty": []}, "a") == []


def test_a_figure_that_is_0_somewhere_is_compared_by_its_difference() -> None:
    (association,) = associations({"swapped": rows(a=[0, 0, 0, 0], b=[9, 10, 11, 10])}, "a", ["swapped"])

    assert (association.is_ratio, association.change, association.before, association.after) == (False, 10, 0, 10)


def test_only_blocks_that_both_levels_ran_in_count() -> None:
    figure = [row for row in rows(a=[1, 2, 3, 4, 5], b=[2, 3, 4, 5.5, 60]) if (row.level, row.block) != ("a", 4)]

    (association,) = associations({"f": figure}, "a")

    assert (association.n, association.after) == (4, 3.625)
