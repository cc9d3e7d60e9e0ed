"""Several factors at once, against figures that were computed independently, and against statsmodels."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from common.errors import PlanError
from stats import Crossed, Metric, Observation, crossed, interactions, main_effects

TPS = Metric("tps", "tps", "higher")
DELTA = 0.02
LEVELS = {"size": ["8", "64"], "huge pages": ["off", "on"]}
RUNS = {
    ("8", "off"): (9800, 9750, 9900, 9700),
    ("8", "on"): (9910, 9800, 10050, 9760),
    ("64", "off"): (10100, 10080, 10180, 9990),
    ("64", "on"): (10470, 10320, 10560, 10370),
}


def rows_of(runs: dict[tuple[str, ...], tuple[float, ...]]) -> list[Observation]:
    each = [(", ".join(cell), block, value) for cell, values in runs.items() for block, value in enumerate(values)]
    return [Observation(label, block, value, order) for order, (label, block, value) in enumerate(each)]


def two_by_two() -> Crossed:
    return crossed(LEVELS, {", ".join(cell): cell for cell in RUNS}, rows_of(RUNS))


def simulated(*sizes: int, blocks: int = 4, seed: int = 1) -> tuple[dict[str, list[str]], list[Observation]]:
    """Factors a, b ... of so many levels, with effects, an interaction and blocks that differ."""
    rng = np.random.default_rng(seed)
    levels = {"abc"[place]: [f"{'abc'[place]}{n}" for n in range(size)] for place, size in enumerate(sizes)}
    runs = {}
    for cell in product(*levels.values()):
        numbers = [int(label[1:]) for label in cell]
        effect = 0.02 * sum(numbers) + 0.03 * numbers[0] * numbers[1]
        runs[cell] = tuple(1000 * np.exp(effect + 0.05 * block + rng.normal(0, 0.01)) for block in range(blocks))
    return levels, rows_of(runs)


def labelled(levels: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {", ".join(cell): cell for cell in product(*levels.values())}


def test_interaction_of_two_factors() -> None:
    (interaction,) = interactions(two_by_two(), DELTA)

    assert interaction.effects_percent == pytest.approx((0.94, 3.39), abs=0.005)
    assert interaction.ratio_percent == pytest.approx(2.43, abs=0.005)
    assert interaction.interval == pytest.approx((1.60, 3.27), abs=0.005)
    assert interaction.p == pytest.approx(9.4e-5, abs=5e-7)


def test_the_sentence_of_factors_that_do_not_act_alone() -> None:
    (interaction,) = interactions(two_by_two(), DELTA)

    assert interaction.sentence() == (
        "Preliminary: size and huge pages interact: huge pages=on against huge pages=off is +0.94 % at size=8 "
        "and +3.39 % at size=64 (ratio +2.43 %, 95 % CI +1.60 to +3.27 %, p < 0.001)."
    )


def test_an_undetected_interaction_is_inconclusive_and_not_absent() -> None:
    noisy = {cell: tuple(value * (1 + 0.03 * (-1) ** (n + place)) for n, value in enumerate(values))
             for place, (cell, values) in enumerate(RUNS.items())}  # fmt: skip

    (interaction,) = interactions(crossed(LEVELS, labelled(LEVELS), rows_of(noisy)), DELTA)

    assert interaction.p is not None and interaction.p > 0.05
    assert interaction.sentence().startswith("Preliminary: Interaction of size and huge pages is inconclusive: ")


def test_factors_that_act_independently_are_named_with_the_margin() -> None:
    alone = {cell: tuple(1000 * (1 + 0.1 * place) * (1 + 0.0001 * (n * place % 3)) for n in range(5))
             for place, cell in enumerate(product(["8", "64"], ["off", "on"]))}  # fmt: skip
    alone["64", "on"] = tuple(1000 * 1.1 * 1.2 * (1 + 0.0001 * (n % 3)) for n in range(5))

    (interaction,) = interactions(crossed(LEVELS, labelled(LEVELS), rows_of(alone)), DELTA)

    assert interaction.sentence().startswith("size and huge pages act independently within 2 %: ")


def test_more_levels_have_one_f_test_and_show_the_largest_ratio() -> None:
    import pandas
    from scipy import stats
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    levels, rows = simulated(3, 4)
    table: dict[str, list[Any]] = {"a": [], "b": [], "block": [], "y": []}
    for row in rows:
        a, b = row.level.split(", ")
        for name, value in (("a", a), ("b", b), ("block", row.block), ("y", np.log(row.value))):
            table[name].append(value)
    oracle = anova_lm(ols("y ~ C(a) * C(b) + C(block)", pandas.DataFrame(table)).fit())

    (interaction,) = interactions(crossed(levels, labelled(levels), rows), DELTA)

    assert interaction.p == pytest.approx(oracle.loc["C(a):C(b)", "PR(>F)"], rel=1e-6)
    assert interaction.s**2 == pytest.approx(oracle.loc["Residual", "mean_sq"])
    assert interaction.contrasts == 6 and (interaction.a_levels, interaction.b_levels) == (("a0", "a2"), ("b0", "b3"))
    assert 100 * np.expm1(0.03 * 2 * 3) == pytest.approx(interaction.ratio_percent, abs=5)
    assert "largest of 6 contrasts" in interaction.sentence()
    half = stats.t.isf(0.05 / 2 / 6, interaction.df) * 2 * interaction.s / np.sqrt(4)  # Bonferroni's, of six
    low, high = (np.log1p(end / 100) for end in interaction.interval)
    assert (high - low) / 2 == pytest.approx(half)


def test_every_pair_of_three_factors_is_tested_and_p_adjusted() -> None:
    levels, rows = simulated(2, 2, 2)

    pairs = interactions(crossed(levels, labelled(levels), rows), DELTA)

    assert [one.factors for one in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [one.significant for one in pairs] == [True, False, False]


def test_main_effects_are_averages_over_the_other_factors() -> None:
    effects = {(name, one.b): one for name, one in main_effects(two_by_two(), TPS, DELTA)}

    on = effects["huge pages", "huge pages on"]
    logs = {cell: np.log(values).mean() for cell, values in RUNS.items()}
    size = np.mean([logs["8", "on"] - logs["8", "off"], logs["64", "on"] - logs["64", "off"]])
    assert on.ratio_percent == pytest.approx(100 * np.expm1(size))
    assert (on.n_a, on.n_b, on.verdict) == (8, 8, "direction_better")
    low, high = on.interval or (0, 0)
    half = 2.26215716 * two_by_two().s * np.sqrt(2 / 8)  # t of 9 degrees of freedom
    assert (np.log1p(high / 100) - np.log1p(low / 100)) / 2 == pytest.approx(half)


def test_runs_of_incomplete_blocks_are_left_out_and_counted() -> None:
    analysis = crossed(LEVELS, labelled(LEVELS), rows_of(RUNS)[1:])

    assert (analysis.blocks, analysis.left_out) == (3, 3)


@pytest.mark.parametrize(
    ("cells", "rows", "why"),
    [
        (labelled(LEVELS), rows_of({cell: values[:2] for cell, values in RUNS.items()}), "only 2 blocks"),
        ({"8, off": ("8", "off"), "64, on": ("64", "on")}, [], "not every combination"),
    ],
    ids=["blocks", "cells"],
)
def test_too_little_data_for_an_interaction_says_why(
    cells: dict[str, tuple[str, ...]], rows: list[Observation], why: str
) -> None:
    with pytest.raises(PlanError, match=why):
        crossed(LEVELS, cells, rows)


def test_runs_without_variation_have_effects_and_no_p() -> None:
    exact = {cell: (1000.0 * (place + 1),) * 3 for place, cell in enumerate(RUNS)}

    (interaction,) = interactions(crossed(LEVELS, labelled(LEVELS), rows_of(exact)), DELTA)

    assert (interaction.p, interaction.ratio_percent) == (None, pytest.approx(100 * (4 / 3 / 2 - 1)))
    assert "nan" not in interaction.sentence()


# Logs of 4 blocks: two starts of the server (A), two runs after each (B).
SPLIT = (
    ((9.50, 9.53), (9.56, 9.60)),
    ((9.47, 9.52), (9.58, 9.61)),
    ((9.52, 9.54), (9.55, 9.60)),
    ((9.49, 9.53), (9.60, 9.62)),
)


def test_an_effect_of_starts_has_the_error_between_starts() -> None:
    """F(A) 32.393 on 1 and 3 degrees of freedom, p 0.01075; F(B) 58.8 on 1 and 6, p 0.000257; pooled, A has 79.3."""
    levels = {"a": ("off", "on"), "b": ("low", "high")}
    cells = {f"{a}, {b}": (a, b) for a in levels["a"] for b in levels["b"]}
    rows = [
        Observation(f"{levels['a'][i]}, {levels['b'][j]}", block, math.exp(y), 0)
        for block, starts in enumerate(SPLIT)
        for i, runs in enumerate(starts)
        for j, y in enumerate(runs)
    ]

    analysis = crossed(levels, cells, rows, frozenset({"a"}))
    effects = dict(main_effects(analysis, TPS, DELTA))

    assert effects["a"].p == pytest.approx(0.01075, abs=2e-5)
    assert effects["b"].p == pytest.approx(0.000257, abs=2e-6)
    assert effects["a"].method.endswith("error between starts")
    assert analysis.error_of("a").df == 3
    assert analysis.error_of("a", "b").df == 6
    assert dict(main_effects(crossed(levels, cells, rows), TPS, DELTA))["a"].p == pytest.approx(9e-6, abs=1e-6)
