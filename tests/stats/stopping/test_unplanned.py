"""Comparisons that a user saw before they stopped or extended the campaign."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as distributions

from stats import Metric, at_unplanned_analysis, compare
from stats.stopping.unplanned import critical_t

TPS = Metric("tps", "tps", "higher")
CAMPAIGNS = 60_000


def t_statistics(seed: int, most: int) -> np.ndarray:
    """|t| of paired differences without an effect after each number of blocks, of shape (campaigns, most)."""
    drawn = np.random.default_rng(seed).standard_normal((CAMPAIGNS, most))
    counts = np.arange(1, most + 1)
    mean = np.cumsum(drawn, axis=1) / counts
    squares = np.cumsum(drawn**2, axis=1) - counts * mean**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.abs(mean) / np.sqrt(squares / (counts - 1) / counts)


def fixed(n: int) -> float:
    return float(distributions.t.isf(0.025, n - 1))


@pytest.mark.parametrize("planned", [3, 5, 10])
def test_extending_until_better_has_at_most_6_percent_false_positives(planned: int) -> None:
    t = t_statistics(planned, 40)
    later = np.array([critical_t(n, n - 1) for n in range(planned + 1, 41)])

    wrong = (t[:, planned - 1] > fixed(planned)) | (t[:, planned:] > later).any(axis=1)

    assert wrong.mean() <= 0.06


@pytest.mark.parametrize("planned", [5, 20, 40])
def test_cancelling_once_it_is_better_has_at_most_6_percent_false_positives(planned: int) -> None:
    t = t_statistics(1, planned)
    earlier = np.array([critical_t(n, n - 1) for n in range(3, planned)])

    wrong = (t[:, planned - 1] > fixed(planned)) | (t[:, 2 : planned - 1] > earlier).any(axis=1)

    assert wrong.mean() <= 0.06


def test_unadjusted_analyses_have_a_false_positive_in_more_than_one_of_five() -> None:
    t = t_statistics(2, 20)

    assert (t[:, 2:] > [fixed(n) for n in range(3, 21)]).any(axis=1).mean() > 0.2


def arms(n: int, effect: float = 0.05, sd: float = 0.01) -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(n)
    return list(1000 * np.exp(rng.normal(0, sd, n))), list(1000 * np.exp(effect + rng.normal(0, sd, n)))


def test_intervals_mde_and_runs_needed_are_adjusted_for_an_unplanned_analysis() -> None:
    planned = compare(*arms(10, effect=0.005, sd=0.02), metric=TPS, delta=0.02, blocked=True)

    adjusted = at_unplanned_analysis(planned)

    assert adjusted.interval and planned.interval
    assert adjusted.interval[0] < planned.interval[0] and adjusted.interval[1] > planned.interval[1]
    assert (adjusted.mde_percent or 0) > (planned.mde_percent or 0)
    assert (adjusted.runs_needed or 0) > (planned.runs_needed or 0)
    assert (adjusted.p, adjusted.method) == (None, "paired t on logs, within blocks, adjusted for unplanned analyses")


def test_a_large_difference_is_significant_at_any_analysis() -> None:
    adjusted = at_unplanned_analysis(compare(*arms(8), metric=TPS, delta=0.02, blocked=True))

    assert adjusted.verdict == "better"


def test_three_runs_allow_no_verdict_after_an_unplanned_analysis() -> None:
    adjusted = at_unplanned_analysis(compare(*arms(3), metric=TPS, delta=0.02, blocked=True))

    assert (adjusted.verdict, adjusted.interval) == ("points_only", None)
    assert (
        adjusted.sentence() == "B and A cannot be compared: too few runs for a verdict after an unplanned analysis (3)."
    )


def test_runs_that_do_not_vary_are_preliminary_while_their_campaign_runs() -> None:
    constant = compare([1000.0] * 5, [1100.0] * 5, metric=TPS, delta=0.02, blocked=True)

    live = at_unplanned_analysis(constant, is_live=True)

    assert not constant.preliminary and live.preliminary
    assert live.sentence().startswith("Preliminary: B is better than A")
