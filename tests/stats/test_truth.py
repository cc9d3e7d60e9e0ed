"""Every scenario of tests/truth in few campaigns: it keeps its limits, and the document has the published shares."""

from __future__ import annotations

import numpy as np
import pytest

from stats import against_baseline
from stats.model import ratio_interval
from tests.truth import SCENARIOS, report
from tests.truth.campaigns import DELTA, TPS, judged, judged_intervals, observations
from tests.truth.conservative import CONSERVATIVE
from tests.truth.scenario import COVERS, Limits, Scenario, Trial, broken, shares, simulate
from tests.truth.scenarios.levels import _dunnett

CLOSED = [each for each in SCENARIOS.values() if not each.open]


@pytest.mark.parametrize("scenario", CLOSED, ids=lambda each: each.name)
def test_a_scenario_keeps_its_limits(scenario: Scenario) -> None:
    measured = simulate(scenario, scenario.quick)

    assert not broken(scenario, measured)


@pytest.mark.parametrize("scenario", CLOSED, ids=lambda each: each.name)
def test_published_shares_are_within_their_limits(scenario: Scenario) -> None:
    published = report.read()

    assert scenario.name in published, f"run: python -m tests.truth '{scenario.name}'"
    assert not broken(scenario, published[scenario.name])


@pytest.mark.parametrize("name", CONSERVATIVE)
def test_only_scenarios_that_cover_more_are_called_conservative(name: str) -> None:
    covers = report.read()[name].covers

    assert covers and covers.share > COVERS[1]


def test_intervals_that_cover_too_often_break_a_limit() -> None:
    scenario = Scenario("wide", lambda rng: Trial(covers=True))

    assert broken(scenario, simulate(scenario, 2000)) == ["covers 1.000 > 0.965"]


def test_the_document_has_the_published_shares() -> None:
    text = report.DOCUMENT.read_text()

    assert text == report.document(text, report.read()), "run: python -m tests.truth NAME"


def test_shares_count_only_trials_with_a_value() -> None:
    measured = shares([Trial(false=True), Trial(false=False), Trial(covers=True)])

    assert measured.false and (measured.false.share, measured.false.of) == (0.5, 2)
    assert measured.covers and measured.covers.of == 1
    assert measured.finds is None


def test_a_share_beyond_its_limit_by_more_than_its_errors_is_broken() -> None:
    def trial(rng: np.random.Generator) -> Trial:
        return Trial(false=bool(rng.random() < 0.2), covers=bool(rng.random() < 0.8), finds=False)

    scenario = Scenario("bad", trial, limits=Limits(finds=0.8))

    assert [each.split()[0] for each in broken(scenario, simulate(scenario, 2000))] == ["covers", "finds", "false"]


@pytest.mark.parametrize("levels", [3, 8])
def test_the_quick_way_to_dunnett_s_intervals_is_that_of_the_product(levels: int) -> None:
    rng = np.random.default_rng(levels)
    effects = [0.0] * (levels - 1) + [0.02]
    for _ in range(10):
        rows = observations(rng, effects, [0.01] * levels, 5)
        product = against_baseline(rows, "l0", TPS, DELTA)
        logs = np.log([row.value for row in rows]).reshape(levels, 5).T

        if product[0].method == "Dunnett on logs, within blocks":
            quick = _dunnett(logs)
            assert [ratio_interval(*wide) for wide, _ in quick] == [pytest.approx(one.interval) for one in product]
            truth = {f"l{level}": effect for level, effect in enumerate(effects)}
            assert judged_intervals(quick, effects[1:]) == judged(product, truth)
