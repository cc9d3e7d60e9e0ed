"""Comparisons against figures that were computed independently of the code."""

from __future__ import annotations

import math
import warnings
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import PlanError
from stats import (
    Comparison,
    Metric,
    Observation,
    against_baseline,
    benjamini_hochberg,
    compare,
    compare_levels,
    dip_depth,
    dips,
    holm,
    level_table,
    mde_percent,
    means_of_hosts,
    noise_floor_percent,
    order_trend,
    runs_needed,
    trend,
    warm_up,
)
from stats.comparison.family import critical
from stats.comparison.levels import _welch_anova_p, pair_of_all
from stats.power import fewest_runs
from stats.trends.within_run import mser_cut

TPS = Metric("tps", "tps", "higher")
LATENCY = Metric("latency_avg", "ms", "lower")
DELTA = 0.02

SHARED_BUFFERS = {
    "8GB": (9800, 9750, 9900, 9700, 9850),
    "16GB": (10060, 10080, 10150, 9960, 10190),
    "32GB": (10310, 10130, 10370, 10150, 10200),
    "64GB": (10140, 10220, 10270, 10020, 10240),
}
A = (10120, 10080, 10240, 9990, 10170)
B = (10390, 10330, 10480, 10360, 10400)
C = (10150, 9980, 10290, 10070, 10210)


def rows_of(levels: dict[str, tuple[float, ...]], *, blocked: bool = True) -> list[Observation]:
    """One row a run; unblocked rows each have a block of their own."""
    cells = [(name, block, value) for name, values in levels.items() for block, value in enumerate(values)]
    return [
        Observation(name, block if blocked else order, value, order) for order, (name, block, value) in enumerate(cells)
    ]


def interval(low: float, high: float, digits: float = 0.005) -> object:
    return pytest.approx((low, high), abs=digits)


# --- k levels


def test_levels_in_blocks_share_the_variance_within_blocks() -> None:
    table = level_table(rows_of(SHARED_BUFFERS))

    assert table.blocked
    assert (table.s, table.df) == (pytest.approx(0.005320, abs=5e-7), 12)
    assert [level.level for level in table.levels] == list(SHARED_BUFFERS)
    assert [level.n for level in table.levels] == [5, 5, 5, 5]
    assert table.levels[0].mean == pytest.approx(math.exp(np.log(SHARED_BUFFERS["8GB"]).mean()))
    half = 2.17881283 * 0.005320 / math.sqrt(5)
    low, high = table.levels[0].interval or (0, 0)
    assert math.log(high / low) == pytest.approx(2 * half, rel=1e-3)
    assert table.p is not None
    assert table.p < 1e-4


def test_levels_without_blocks_have_their_own_variance() -> None:
    table = level_table(rows_of(SHARED_BUFFERS, blocked=False))

    assert not table.blocked
    assert table.s == pytest.approx(0.009274, abs=5e-7)
    logs = np.log(SHARED_BUFFERS["8GB"])
    half = 2.77644511 * logs.std(ddof=1) / math.sqrt(5)
    assert table.levels[0].interval == pytest.approx((math.exp(logs.mean() - half), math.exp(logs.mean() + half)))


def test_a_missing_cell_leaves_no_common_blocks() -> None:
    rows = rows_of(SHARED_BUFFERS)[:-1]

    assert not level_table(rows).blocked


def test_one_run_has_no_interval() -> None:
    table = level_table(rows_of({"1 cpu": (4719.0,), "2 cpus": (9675.0,)}))

    assert [level.interval for level in table.levels] == [None, None]
    assert table.p is None


def test_the_critical_value_of_dunnett_is_that_of_the_tables() -> None:
    assert critical((math.sqrt(0.5),) * 3, 12, 0.95) == pytest.approx(2.683, abs=0.0005)


@pytest.mark.parametrize(
    ("level", "ratio", "low", "high"),
    [("16GB", 2.94, 2.01, 3.87), ("32GB", 4.41, 3.47, 5.35), ("64GB", 3.86, 2.92, 4.80)],
)
def test_levels_against_a_baseline_in_blocks(level: str, ratio: float, low: float, high: float) -> None:
    by_level = {one.b: one for one in against_baseline(rows_of(SHARED_BUFFERS), "8GB", TPS, DELTA)}

    assert list(by_level) == ["16GB", "32GB", "64GB"]
    assert by_level[level].ratio_percent == pytest.approx(ratio, abs=0.005)
    assert by_level[level].interval == interval(low, high)
    assert by_level[level].verdict == "better"


def test_levels_against_a_baseline_out_of_blocks_agree_with_scipy_s_dunnett() -> None:
    from scipy import stats

    arms = [np.log(values) for values in SHARED_BUFFERS.values()]
    oracle = stats.dunnett(*arms[1:], control=arms[0], rng=np.random.default_rng(1)).confidence_interval()

    comparisons = against_baseline(rows_of(SHARED_BUFFERS, blocked=False), "8GB", TPS, DELTA)

    assert "Dunnett" in comparisons[0].method
    assert [one.interval for one in comparisons] == [
        interval(100 * math.expm1(low), 100 * math.expm1(high), 0.02)
        for low, high in zip(oracle.low, oracle.high, strict=True)
    ]


def test_levels_against_a_baseline_with_a_missing_cell_use_contrasts() -> None:
    comparisons = against_baseline(rows_of(SHARED_BUFFERS)[:-1], "8GB", TPS, DELTA)

    assert {one.method for one in comparisons} == {"max-t of contrasts on logs, incomplete blocks"}
    assert [one.n_b for one in comparisons] == [5, 5, 4]
    assert comparisons[0].ratio_percent == pytest.approx(2.94, abs=0.05)


def test_a_level_of_one_run_gives_points_beside_levels_that_have_enough() -> None:
    rows = [*rows_of(SHARED_BUFFERS), Observation("128GB", 0, 10500, 20)]

    verdicts = {one.b: one.verdict for one in against_baseline(rows, "8GB", TPS, DELTA)}

    assert verdicts == {"16GB": "better", "32GB": "better", "64GB": "better", "128GB": "points_only"}


def test_an_unknown_baseline_is_refused_with_the_levels_there_are() -> None:
    with pytest.raises(PlanError, match=r"4GB.*8GB, 16GB"):
        against_baseline(rows_of(SHARED_BUFFERS), "4GB", TPS, DELTA)


def test_a_pair_of_many_levels_is_compared_by_tukey() -> None:
    comparison = pair_of_all(rows_of(SHARED_BUFFERS)[::-1], "64GB", "32GB", TPS, DELTA)

    assert comparison.ratio_percent == pytest.approx(0.53, abs=0.005)
    assert comparison.interval == interval(-0.47, 1.54)
    assert comparison.p == pytest.approx(0.429, abs=0.0005)


# --- A against B


def test_unblocked_levels_are_compared_by_welch_on_logs() -> None:
    comparison = compare(A, B, metric=TPS, delta=DELTA, blocked=False)

    assert comparison.ratio_percent == pytest.approx(2.690, abs=0.0005)
    assert comparison.p == pytest.approx(0.00119, abs=5e-6)
    assert comparison.interval == interval(1.507, 3.887, 0.0005)
    assert comparison.mann_whitney_p == pytest.approx(0.00794, abs=5e-6)
    assert comparison.hodges_lehmann_percent == pytest.approx(2.668, abs=0.0005)
    assert comparison.verdict == "direction_better"


def test_welch_statistic_and_degrees_of_freedom() -> None:
    from stats.comparison.pairs import welch

    effect = welch(np.log(A), np.log(B))

    assert effect.difference / (effect.se or 1) == pytest.approx(5.516, abs=0.0005)
    assert effect.df == pytest.approx(6.428, abs=0.0005)


def test_paired_within_blocks() -> None:
    comparison = compare(A, B, metric=TPS, delta=DELTA, blocked=True)

    assert comparison.interval == interval(1.967, 3.418, 0.0005)
    assert comparison.verdict == "direction_better"


def test_equivalence_within_the_margin() -> None:
    comparison = compare(A, C, metric=TPS, delta=0.02, blocked=False)

    assert comparison.ratio_percent == pytest.approx(0.195, abs=0.0005)
    assert comparison.interval == interval(-1.367, 1.783, 0.0005)
    assert comparison.s == pytest.approx(0.010671, abs=5e-7)
    assert comparison.mde_percent == pytest.approx(2.184, abs=0.0005)
    assert comparison.equivalence_p == pytest.approx(0.0155, abs=0.00005)
    assert comparison.verdict == "equivalent"


def test_a_tighter_margin_leaves_the_same_runs_undecided() -> None:
    comparison = compare(A, C, metric=TPS, delta=0.01, blocked=False)

    assert comparison.equivalence_p == pytest.approx(0.136, abs=0.0005)
    assert comparison.verdict == "undetectable"


def test_the_noise_floor_of_repeated_runs() -> None:
    assert noise_floor_percent(0.010671, 5) == pytest.approx(1.57, abs=0.005)


def test_adjusted_p_values() -> None:
    assert holm([0.001, 0.012, 0.03, 0.2]) == pytest.approx([0.004, 0.036, 0.06, 0.2])
    assert benjamini_hochberg([0.001, 0.012, 0.03, 0.2]) == pytest.approx([0.004, 0.024, 0.04, 0.2])


def test_levels_are_paired_by_block_in_any_order_of_rows() -> None:
    rows = rows_of({"A": A, "B": B})

    comparison = compare_levels(rows[::-1], "A", "B", TPS, DELTA)

    assert comparison.interval == interval(1.967, 3.418, 0.0005)


def test_levels_with_a_missing_run_are_compared_in_the_blocks_that_both_ran_in() -> None:
    comparison = compare_levels(rows_of({"A": A, "B": B})[:-1], "A", "B", TPS, DELTA)
    whole = compare(A[:4], B[:4], metric=TPS, delta=DELTA, blocked=True, names=("A", "B"))

    assert comparison.method == "paired t on logs, within blocks"
    assert comparison.interval == whole.interval
    assert comparison.preliminary


def test_one_failed_run_of_many_blocks_leaves_the_interval_as_it_was() -> None:
    rng = np.random.default_rng(8)
    blocks = rng.normal(0, 0.15, 80)
    rows = [
        Observation(level, block, 1000 * math.exp(y + effect + rng.normal(0, 0.004)), 2 * block)
        for block, y in enumerate(blocks)
        for level, effect in (("a", 0.0), ("b", math.log(1.04)))
    ]

    low, high = compare_levels(rows[1:], "a", "b", TPS, DELTA).interval or (0.0, 0.0)

    assert 3.8 < low < 4 < high < 4.2


def test_a_level_whose_runs_were_all_retried_later_is_not_compared() -> None:
    rows = [Observation("a", block, 1000 + block, block) for block in range(5)]
    rows += [Observation("b", 5 + block, 1100 + block, 10 + block, retried=True) for block in range(5)]

    comparison = against_baseline(rows, "a", TPS, DELTA)[0]

    assert (comparison.verdict, comparison.interval) == ("points_only", None)
    assert comparison.sentence() == (
        "b and a cannot be compared: they share no block, because runs were retried later."
    )


def test_of_several_levels_only_the_one_that_shares_no_block_is_not_compared() -> None:
    rng = np.random.default_rng(3)
    rows = [Observation(name, n, 1000 + rng.normal(), n) for name in "abc" for n in range(5)]
    rows += [Observation("d", 5 + n, 1100 + rng.normal(), 20 + n, retried=True) for n in range(5)]

    by_level = {one.b: one for one in against_baseline(rows, "a", TPS, DELTA)}

    assert by_level["b"].verdict == by_level["c"].verdict == "equivalent"
    assert by_level["d"].interval is None
    assert "cannot be compared" in by_level["d"].sentence()


def test_hosts_are_compared_by_their_means_and_two_are_too_few() -> None:
    def host(effect: float) -> list[Observation]:
        return [
            Observation(level, n, 1000 * math.exp(effect * (level == "b") + 0.001 * n), n)
            for n in range(5)
            for level in "ab"
        ]

    two = against_baseline(means_of_hosts([host(0.02), host(0.08)]), "a", TPS, DELTA)[0]
    three = against_baseline(means_of_hosts([host(0.02), host(0.05), host(0.08)]), "a", TPS, DELTA)[0]

    assert two.verdict == "points_only"
    assert "from 2 hosts; a comparison needs 3" in two.sentence()
    assert three.verdict == "undetectable"
    assert (three.n_a, three.preliminary, three.runs_needed) == (3, True, None)
    assert "3 hosts" in three.sentence()


# --- verdicts and sentences


def verdict_of(a: tuple[float, ...], b: tuple[float, ...], metric: Metric = TPS, delta: float = DELTA) -> Comparison:
    return compare(a, b, metric=metric, delta=delta, blocked=False)


def scaled(values: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(value * factor for value in values)


@pytest.mark.parametrize(("metric", "expected"), [(TPS, "better"), (LATENCY, "worse")])
def test_more_is_better_or_worse_as_the_metric_says(metric: Metric, expected: str) -> None:
    assert verdict_of(A, scaled(A, 1.10), metric).verdict == expected


@pytest.mark.parametrize(("metric", "expected"), [(TPS, "direction_worse"), (LATENCY, "direction_better")])
def test_less_is_better_or_worse_as_the_metric_says(metric: Metric, expected: str) -> None:
    assert verdict_of(B, A, metric).verdict == expected


def test_the_sentence_of_a_better_level() -> None:
    assert verdict_of(A, scaled(A, 1.10)).sentence("8GB", "16GB") == (
        "16GB is better than 8GB: tps +10.0 % (95 % CI +8.52 to +11.5 %, 5 runs of each, p < 0.001)."
    )


def test_the_sentence_of_a_worse_level() -> None:
    sentence = verdict_of(A, scaled(A, 1.10), LATENCY).sentence("off", "on")

    assert sentence.startswith("on is worse than off: latency avg +10.0 %")


def test_the_sentence_of_equivalent_levels() -> None:
    assert verdict_of(A, C).sentence("8GB", "16GB") == (
        "16GB and 8GB are equivalent within 2 %: tps +0.20 % (90 % CI -1.06 to +1.47 %, 5 runs of each)."
    )


def test_the_sentence_of_a_direction() -> None:
    assert verdict_of(A, B).sentence("8GB", "16GB") == (
        "16GB is likely better than 8GB, size uncertain: tps +2.69 % "
        "(95 % CI +1.51 to +3.89 %, 5 runs of each, p = 0.0012)."
    )


def test_the_sentence_of_an_inconclusive_comparison() -> None:
    comparison = verdict_of(A, C, delta=0.01)

    assert comparison.sentence("8GB", "16GB").startswith("Inconclusive, 16GB against 8GB: tps +0.20 % (95 % CI ")
    assert (round(comparison.mde_percent or 0, 2), comparison.runs_needed) == (2.18, 24)


def test_one_run_per_level_gives_no_ranking() -> None:
    comparison = verdict_of((75870.0,), (76312.0,))

    assert (comparison.verdict, comparison.interval, comparison.p, comparison.runs_needed) == (
        "points_only",
        None,
        None,
        None,
    )
    assert comparison.sentence("default", "localalloc") == (
        "Too few runs to compare localalloc with default: tps +0.58 % from 1 run of each; a comparison needs 3 of each."
    )


def test_two_runs_per_level_give_no_ranking() -> None:
    assert verdict_of(A[:2], scaled(A[:2], 2.0)).verdict == "points_only"


def test_three_runs_of_each_are_preliminary() -> None:
    comparison = verdict_of(A[:3], scaled(A[:3], 2.0))

    assert comparison.preliminary
    assert comparison.sentence("8GB", "16GB").startswith("Preliminary: 16GB is better")


def test_runs_without_variation_have_a_ratio_but_no_p() -> None:
    comparison = compare((0.048,) * 3, (0.048,) * 3, metric=LATENCY, delta=0.05, blocked=False)

    assert (comparison.interval, comparison.p, comparison.mde_percent, comparison.verdict) == (
        (0.0, 0.0),
        None,
        0.0,
        "equivalent",
    )
    assert comparison.sentence("A", "B") == (
        "Preliminary: B and A are equivalent within 5 %: latency avg +0.00 % "
        "(no variation between runs, 3 runs of each)."
    )


def test_if_one_level_does_not_vary_the_variance_of_the_other_is_used(recwarn: pytest.WarningsRecorder) -> None:
    comparison = verdict_of((990.0,) * 3, (990.0, 990.0, 990.0, 1000.0))

    assert (comparison.verdict, comparison.p) == ("equivalent", pytest.approx(0.391, abs=0.0005))
    assert not recwarn.list


def test_levels_without_variation_do_not_break_the_table() -> None:
    rows = rows_of({"a": (1.0,) * 3, "b": (2.0,) * 3, "c": (1.0,) * 3})

    assert [one.verdict for one in against_baseline(rows, "a", TPS, DELTA)] == ["better", "equivalent"]
    pairs = [pair_of_all(rows, a, b, TPS, DELTA).verdict for a, b in combinations("abc", 2)]
    assert pairs == ["better", "equivalent", "worse"]
    assert level_table(rows).p is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_value_without_a_ratio_is_refused(value: float) -> None:
    with pytest.raises(PlanError, match="above zero"):
        compare((value, 1.0, 1.0), (1.0, 1.0, 1.0), metric=TPS, delta=DELTA, blocked=False)


@pytest.mark.parametrize("delta", [0.0, -0.02, 2.0])
def test_an_invalid_margin_is_refused(delta: float) -> None:
    with pytest.raises(PlanError, match="margin"):
        compare(A, B, metric=TPS, delta=delta, blocked=False)


def test_a_metric_without_a_better_direction_cannot_be_compared() -> None:
    with pytest.raises(PlanError, match="neither direction"):
        Metric("scaling_factor", "", "")  # type: ignore[arg-type]


@st.composite
def campaigns(draw: st.DrawFn) -> list[Observation]:
    """Runs of up to four levels in up to five blocks, cells missing at random, values coarse enough to tie."""
    values = st.sampled_from([990.0, 1000.0, 1010.0, 1500.0])
    cells = [(level, block) for level in "abcd"[: draw(st.integers(1, 4))] for block in range(draw(st.integers(1, 5)))]
    missing = draw(st.sets(st.sampled_from(cells), max_size=min(4, len(cells) - 1)))
    present = [cell for cell in draw(st.permutations(cells)) if cell not in missing]
    return [Observation(level, block, draw(values), order) for order, (level, block) in enumerate(present)]


@settings(max_examples=60)
@given(rows=campaigns())
def test_any_campaign_however_incomplete_gets_its_table_and_sentences(rows: list[Observation]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = level_table(rows)
        comparisons = against_baseline(rows, rows[0].level, TPS, DELTA)
        sentences = [one.sentence() for one in comparisons] + [order_trend(rows, DELTA).sentence()]

    assert sum(level.n for level in table.levels) == len(rows)
    assert not any("nan" in sentence or "inf " in sentence for sentence in sentences)
    for one in comparisons:
        assert (one.verdict == "points_only") == (one.n < 3 or bool(one.note))


# --- within a run

WARMING = (8200, 9100, 9600, 9900, 10010, 9980, 10030, 9990, 10020, 9970)
STEADY = (10000, 10015, 9985, 10005, 9995, 10010, 9990, 10020, 9980, 10000)


def test_warm_up_ends_where_the_rule_says() -> None:
    assert mser_cut(WARMING + STEADY) == 4
    assert np.mean((WARMING + STEADY)[4:]) == pytest.approx(10000)
    assert np.mean(WARMING + STEADY) == pytest.approx(9840)


def test_warm_up_is_cut_in_samples() -> None:
    samples = np.repeat(WARMING + STEADY, 5)

    steadiness = warm_up(samples)

    assert (steadiness.cut, steadiness.detected, steadiness.steady) == (20, 20, True)
    assert steadiness.mean == pytest.approx(10000)


def test_the_configured_warm_up_is_a_minimum() -> None:
    assert warm_up(np.repeat(WARMING + STEADY, 5), configured=30).cut == 30


def test_a_checkpoint_is_not_taken_for_warm_up() -> None:
    samples = np.repeat(WARMING + STEADY, 5).astype(float)
    samples[60:65] = 3000
    mask = samples == 3000

    assert warm_up(samples, masked=mask).detected == 20


def test_a_run_that_never_settles_says_so() -> None:
    assert not warm_up([1000] * 55 + [9000] * 45).steady


def test_a_run_without_samples_has_no_warm_up() -> None:
    assert (warm_up([]).cut, warm_up([5.0]).cut) == (0, 0)


def test_a_trend_of_the_margin_is_flagged_and_a_smaller_one_is_not() -> None:
    noise = np.random.default_rng(1).normal(0, 5, 100)

    assert trend(np.linspace(1000, 1030, 100) + noise, DELTA).flagged  # type: ignore[union-attr]
    assert not trend(np.linspace(1000, 1010, 100) + noise, DELTA).flagged  # type: ignore[union-attr]
    assert trend([1.0, 2.0], DELTA) is None


def test_dips_and_stalls_are_counted() -> None:
    samples = [100] * 10 + [60] * 4 + [100] * 5 + [0] + [100] * 10

    losses = dips(samples)

    assert losses.lost_fraction == pytest.approx(0.0867, abs=5e-5)
    assert losses.stalled == 1
    assert dip_depth(samples, [value == 60 for value in samples]) == pytest.approx(0.40)


def test_stalls_have_places_and_missing_samples_are_none() -> None:
    losses = dips([100.0] * 10 + [0.0] * 2 + [100.0] * 5 + [math.nan] + [5.0] + [100.0] * 10)

    assert (losses.stalled, losses.stalls) == (3, ((10, 12), (18, 19)))


def test_the_cut_is_that_of_the_rule_as_it_is_written() -> None:
    rng = np.random.default_rng(4)
    for m in (2, 3, 7, 20, 61):
        y = 1000 - 300 * np.exp(-np.arange(m) / 3) + rng.normal(0, 5, m)
        mser = [((y[d:] - y[d:].mean()) ** 2).sum() / (m - d) ** 2 for d in range(m // 2 + 1)]
        expected = next(d for d, value in enumerate(mser) if value <= 1.2 * min(mser))

        assert mser_cut(y) == expected


def test_the_trend_of_a_long_run_is_that_of_means() -> None:
    rate = np.linspace(1000, 1100, 86_400) + np.random.default_rng(1).normal(0, 30, 86_400)

    estimate = trend(rate, DELTA)

    assert estimate is not None and estimate.flagged
    assert estimate.total_percent == pytest.approx(100 * 100 / 1050, abs=0.2)


# --- drift

ORDER = "ABBAABBAAB"
DRIFTING = (10130, 10290, 10320, 10050, 10010, 10280, 10190, 10070, 9980, 10210)


def drifting_rows() -> list[Observation]:
    return [
        Observation(level, 1, value, order) for order, (level, value) in enumerate(zip(ORDER, DRIFTING, strict=True))
    ]


def test_drift_is_estimated_beside_the_levels() -> None:
    estimate = order_trend(drifting_rows(), DELTA)

    assert estimate.per_run_percent == pytest.approx(-0.1325, abs=5e-5)
    assert estimate.interval == interval(-0.232, -0.033, 0.0005)
    assert estimate.p == pytest.approx(0.0165, abs=5e-5)
    assert estimate.total_percent == pytest.approx(-1.19, abs=0.005)
    assert estimate.banner
    assert "-1.19 % over 10 runs" in estimate.sentence()


def test_a_drift_below_half_of_the_margin_raises_no_banner() -> None:
    estimate = order_trend(drifting_rows(), 0.05)

    assert not estimate.banner
    assert estimate.sentence().startswith("No relevant drift: -0.13 % per run")


def test_a_drift_that_the_runs_are_too_noisy_to_rule_out_is_not_denied() -> None:
    rows = [Observation("A", 1, value, order) for order, value in enumerate((100.0, 140.0, 95.0, 150.0, 120.0, 155.0))]

    estimate = order_trend(rows, DELTA)

    assert (estimate.banner, estimate.negligible) == (False, False)
    assert estimate.sentence().startswith("Drift is inconclusive: ")


def test_levels_run_one_after_the_other_hide_a_drift() -> None:
    rows = [Observation("A", 1, 100.0, 0), Observation("B", 1, 101.0, 1), Observation("C", 1, 102.0, 2)]

    estimate = order_trend(rows, DELTA)

    assert (estimate.per_run_percent, estimate.banner) == (None, False)
    assert estimate.sentence() == "Not enough runs to test for drift."


# --- how many more


@pytest.mark.parametrize("near", [0.0, 1.0, 7.0, 40.0, 5000.0, math.inf])
@pytest.mark.parametrize("answer", [3, 4, 7, 8, 41, 1000])
def test_the_fewest_runs_are_the_same_wherever_the_search_begins(answer: int, near: float) -> None:
    assert fewest_runs(lambda n: n >= answer, 3, near) == answer


def test_runs_needed_grow_with_the_variation_and_fall_with_the_effect() -> None:
    assert runs_needed(0.02, 0.02) == 18
    assert runs_needed(0.02, 0.02, paired=True) == 11


def test_runs_needed_account_for_a_variation_estimated_from_few_runs() -> None:
    needed = [runs_needed(0.02, 0.02, paired=True, known_df=df) for df in (2, 4, 9, 1000)]

    assert needed == sorted(needed, reverse=True)
    assert (needed[0], needed[-1]) == (23, 11)


def test_runs_needed_are_never_fewer_than_a_verdict_needs() -> None:
    assert runs_needed(0.0, 0.02) == runs_needed(0.0001, 0.02) == runs_needed(0.006, 0.02, paired=True) == 3


@given(st.lists(st.floats(0, 1), max_size=12))
def test_adjusted_p_values_are_those_of_statsmodels(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    for adjust, method in ((holm, "holm"), (benjamini_hochberg, "fdr_bh")):
        oracle = multipletests(p_values, method=method)[1] if p_values else []
        assert adjust(p_values) == pytest.approx(list(oracle), abs=1e-12)


def test_the_test_of_levels_with_unequal_variances_is_that_of_statsmodels() -> None:
    from statsmodels.stats.oneway import anova_oneway

    arms = [np.random.default_rng(seed).normal(size=4 + seed) * (1 + seed) for seed in range(4)]

    assert _welch_anova_p(arms) == pytest.approx(float(anova_oneway(arms, use_var="unequal").pvalue), rel=1e-9)


def test_the_minimum_detectable_effect_equals_that_of_statsmodels() -> None:
    from statsmodels.stats.power import TTestIndPower, TTestPower

    for n in (3, 5, 20):
        two = TTestIndPower().solve_power(nobs1=n, alpha=0.05, power=0.8)
        one = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)
        assert mde_percent(0.02, n, n) == pytest.approx(100 * math.expm1(two * 0.02), rel=1e-5)
        assert mde_percent(0.02, n, n, paired=True) == pytest.approx(100 * math.expm1(one * 0.02), rel=1e-5)
    for s in (0.005, 0.011, 0.02, 0.1):
        two = TTestIndPower().solve_power(effect_size=math.log1p(0.02) / s, alpha=0.05, power=0.8)
        assert runs_needed(s, 0.02) == max(3, math.ceil(two))


def test_one_of_several_comparisons_finds_less_than_one_alone() -> None:
    from scipy import stats

    family = against_baseline(rows_of(SHARED_BUFFERS), "8GB", TPS, DELTA)
    alone = against_baseline(rows_of({name: SHARED_BUFFERS[name] for name in ("8GB", "16GB")}), "8GB", TPS, DELTA)

    effect = math.log1p((family[0].mde_percent or 0) / 100) / ((family[0].s or 1) * math.sqrt(2 / 5))
    assert stats.nct.sf(2.683, 12, effect) == pytest.approx(0.8, abs=0.001)  # d 2.683 of 12 degrees of freedom
    assert (family[0].runs_needed, alone[0].runs_needed) == (3, 3)
