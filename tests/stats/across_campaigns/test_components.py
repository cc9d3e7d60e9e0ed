"""Variation between campaigns, from the host's history of identical runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats import Between, Cell, Metric, between_campaigns, compare_campaigns

TPS = Metric("tps", "tps", "higher")
# Logs of four campaigns of five runs; MS between 0.0104583, within 0.00025.
CAMPAIGNS = (
    (10.01, 10.03, 9.99, 10.02, 10.00),
    (10.08, 10.06, 10.09, 10.05, 10.07),
    (9.95, 9.98, 9.96, 9.97, 9.94),
    (10.02, 10.05, 10.03, 10.01, 10.04),
)


def values(own: tuple[float, ...]) -> list[float]:
    return [math.exp(y) for y in own]


def history(*groups: str) -> list[Cell]:
    return [Cell(group, f"c{n}", values(own)) for group in groups for n, own in enumerate(CAMPAIGNS)]


def test_components_are_those_of_the_analysis_of_variance() -> None:
    components = between_campaigns(history("one"))

    assert components is not None
    assert math.sqrt(components.variance) == pytest.approx(0.045185, abs=1e-5)
    assert components.within == pytest.approx(0.00025, rel=1e-3)
    assert components.df == 3


def test_two_of_such_campaigns_differ_by_chance_within_twenty_percent() -> None:
    comparison = compare_campaigns(
        values(CAMPAIGNS[0]), values(CAMPAIGNS[1]), between_campaigns(history("one")), metric=TPS, delta=0.02
    )

    low, high = (math.log1p(end / 100) for end in comparison.interval or (0.0, 0.0))
    assert (high - low) / 2 == pytest.approx(0.20584, abs=2e-4)
    assert comparison.verdict == "undetectable"
    assert "variation between campaigns (REML, 3 df)" in comparison.method


def test_without_a_history_no_difference_and_no_equivalence_is_claimed() -> None:
    cells = [*history("one")[:1], Cell("other", "c1", values(CAMPAIGNS[1]))]

    between = between_campaigns(cells)
    comparison = compare_campaigns(values(CAMPAIGNS[0]), values(CAMPAIGNS[1]), between, metric=TPS, delta=0.02)

    assert between is None
    assert (comparison.verdict, comparison.p, comparison.runs_needed) == ("undetectable", None, None)
    assert "Variation between campaigns is not included" in comparison.sentence()


def test_a_campaign_of_several_groups_is_one_day() -> None:
    """Its groups move together, so that two of them tell no more of the days than one."""
    components = between_campaigns(history("one", "other"))

    assert components is not None
    assert components.df == 3
    assert components.variance == pytest.approx(0.0020414, rel=0.05)


def test_equal_days_add_no_variance() -> None:
    cells = [Cell("one", f"c{n}", list(np.exp(own))) for n, own in enumerate([(10.0, 10.02, 9.98)] * 4)]

    assert between_campaigns(cells) == Between(0.0, pytest.approx(0.00029, rel=0.1), 3)


def test_history_without_any_noise_does_not_break() -> None:
    cells = [Cell("one", f"c{n}", [100.0, 100.0, 100.0]) for n in range(4)]

    comparison = compare_campaigns([100.0] * 3, [103.0] * 3, between_campaigns(cells), metric=TPS, delta=0.02)

    assert comparison.ratio_percent == pytest.approx(3.0)
