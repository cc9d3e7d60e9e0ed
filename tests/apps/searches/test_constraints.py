"""The constraints of a search: how they are read, and that a candidate that breaks one is no gain."""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.urls import reverse
from django.utils.html import escape

from apps.accounts.models import Role
from apps.campaigns.design import steps
from apps.campaigns.models import Run
from apps.results.models import Measurement
from apps.searches import constraints, optimiser, queries, rounds, space
from apps.searches.models import Round, Search, Trial
from apps.searches.optimiser import Tried
from common.errors import PlanError
from tests.rows.factories import browser, make_search, make_user
from tests.rows.searched import advance, end_round, finish

pytestmark = pytest.mark.django_db
STEPS = steps.single("pgbench", {})
LIMIT = "latency_avg <= 1 ms"  # latency_avg is 2000 / tps ms: a candidate needs 2,000 TPS


def figures(values: dict[str, Any]) -> float:
    """The default has 1,000 TPS, candidates without jit 3,000, the others 1,500."""
    return (1500.0 if values["jit"] == "on" else 3000.0) if values else 1000.0


def only_slow(values: dict[str, Any]) -> float:
    return 1500.0 if values else 1000.0


@pytest.fixture
def search() -> Search:
    return make_search(constraints=[LIMIT])


@pytest.mark.parametrize(
    ("line", "at_most", "limit", "unit", "canonical"),
    [
        ("latency_p99 <= 20 ms", True, 20.0, "ms", "latency_p99 <= 20 ms"),
        ("latency_p99<=20", True, 20.0, "ms", "latency_p99 <= 20 ms"),
        ("tps >= 1500.5", False, 1500.5, "tps", "tps >= 1500.5 tps"),
        ("failed <= 0", True, 0.0, "transactions", "failed <= 0 transactions"),
        ("tps >= 1e3", False, 1000.0, "tps", "tps >= 1000 tps"),
    ],
)
def test_a_constraint_is_a_metric_and_its_limit(
    line: str, at_most: bool, limit: float, unit: str, canonical: str
) -> None:
    [each] = constraints.read([line], STEPS)

    assert (each.at_most, each.limit, each.unit, each.line) == (at_most, limit, unit, canonical)
    assert constraints.read([canonical], STEPS) == [each]


def test_a_unit_of_several_words_can_be_read_again() -> None:
    measured = steps.single("tpcc", {"warehouses": 1})

    [each] = constraints.read(["nopm >= 100"], measured)

    assert each.line == "nopm >= 100 new orders/min"
    assert constraints.read([each.line], measured) == [each]


def test_a_value_that_is_just_beyond_the_limit_is_shown_with_more_digits() -> None:
    [each] = constraints.read(["latency_p99 <= 20 ms"], STEPS)

    assert [each.text(value) for value in (20.0, 20.0413, 25.34)] == ["20 ms", "20.0413 ms", "25.3 ms"]


def test_the_optimiser_sees_how_far_each_value_is_beyond_a_limit() -> None:
    latency, failed, tps = constraints.read(["latency_p99 <= 20 ms", "failed <= 0", "tps >= 500"], STEPS)

    assert latency.excess(40.0) == pytest.approx(tps.excess(250.0)) == pytest.approx(math.log(2))
    assert (failed.excess(0), latency.excess(20.0)) == (0, 0)
    assert 0 < failed.excess(1) < failed.excess(10_000) < 10


def test_a_metric_that_is_the_same_in_every_run_has_no_interval() -> None:
    [each] = constraints.read(["failed <= 0"], STEPS)

    assert constraints.confirm(each, [0.0] * 5).sentence == (
        "meets failed <= 0 transactions with 0 transactions (the same in every run)"
    )


@pytest.mark.parametrize(
    ("lines", "field", "message"),
    [
        (["latency_p99 < 20"], "constraints.1", "is not a constraint"),
        (["latency_p99 <= 1e999"], "constraints.1", "is not a constraint"),
        (["latency_p99 <= 20", "measure.latency_p99 <= 30"], "constraints.2", "two upper limits"),
        (["latency_p99 <= nan"], "constraints.1", "is not a constraint"),
        (["speed <= 20"], "constraints.1", "is not measured by"),
        (["tps >= 5", "latency_p99 <= 20 s"], "constraints.2", "is not its unit"),
        (["latency_p99 <= 20", "latency_p99 <= 30"], "constraints.2", "two upper limits"),
        (["tps >= 1"] * 11, "constraints", "are too many"),
    ],
)
def test_an_invalid_constraint_is_refused_with_its_field(lines: list[str], field: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        constraints.read(lines, STEPS)

    assert caught.value.subject == field


def test_a_trial_that_breaks_a_constraint_names_its_value_and_the_limit(search: Search) -> None:
    advance(search)
    end_round(search, figures, noise=0.0)
    advance(search)

    for trial in search.trials.filter(number__lte=3):
        is_met = trial.values["jit"] == "off"
        assert trial.state == (Trial.State.MEASURED if is_met else Trial.State.BREAKS_LIMIT)
        assert trial.reason == ("" if is_met else "latency_avg is 1.33 ms; the limit is at most 1 ms")
        [check] = trial.checks
        assert (check["constraint"], check["is_met"]) == (LIMIT, is_met)
        assert check["value"] == pytest.approx(2 / 3 if is_met else 4 / 3)
        assert trial.log_ratio is not None


def test_candidates_that_break_a_constraint_are_neither_run_again_nor_confirmed(search: Search) -> None:
    finish(search, only_slow)

    assert (search.state, search.state_reason) == (Search.State.FINISHED, rounds.NOTHING_BETTER_WITHIN)
    assert not search.rounds.filter(kind=Round.Kind.CONFIRMATION).exists()
    assert set(search.trials.values_list("state", "blocks")) == {(Trial.State.BREAKS_LIMIT, 2)}


@pytest.mark.thorough
@pytest.mark.parametrize(("lines", "best"), [([], "on"), (["tps <= 5000"], "off")])
def test_the_best_candidate_within_the_constraints_is_confirmed(lines: list[str], best: str) -> None:
    search = make_search(constraints=lines)
    finish(search, lambda values: (9000.0 if values["jit"] == "on" else 3000.0) if values else 1000.0)

    assert confirmed_values(search)["jit"] == best


def confirmed_values(search: Search) -> dict[str, Any]:
    last = search.rounds.get(kind=Round.Kind.CONFIRMATION)
    label = last.campaign.factors[0]["levels"][1]["label"]
    return dict(search.trials.get(number=int(label.removeprefix("trial "))).values)


def confirm(search: Search, tps: float) -> queries.Confirmation:
    """The confirmation, in which every candidate has this throughput."""
    while not search.rounds.filter(kind=Round.Kind.CONFIRMATION).exists():
        end_round(search, figures) if search.rounds.exists() else None
        advance(search)
    end_round(search, lambda values: tps if values else 1000.0)
    advance(search)
    confirmation = queries.confirmation(search)
    assert confirmation and confirmation.tables
    return confirmation


def test_a_confirmed_candidate_that_meets_the_constraints_is_a_gain(search: Search) -> None:
    confirmation = confirm(search, 3000.0)

    assert confirmation.is_better
    [sentence] = confirmation.findings
    assert "is better than default" in sentence and "No gain" not in sentence


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("tps", "beginning", "verb"), [(1800.0, "No gain: ", "breaks"), (2005.0, "No certain gain: ", "may break")]
)
def test_a_better_candidate_that_breaks_a_constraint_in_the_confirmation_is_no_gain(
    search: Search, tps: float, beginning: str, verb: str
) -> None:
    confirmation = confirm(search, tps)

    assert not confirmation.is_better
    [sentence] = confirmation.findings
    assert sentence.startswith(beginning)
    assert f"{verb} latency_avg <= 1 ms with " in sentence
    assert "Without constraints: " in sentence


def test_a_metric_that_a_run_did_not_measure_breaks_its_constraint() -> None:
    search = make_search(constraints=["latency_p99 <= 20 ms"])
    advance(search)
    end_round(search)
    advance(search)

    trial = search.trials.get(number=1)
    assert trial.state == Trial.State.BREAKS_LIMIT
    assert trial.reason == "latency_p99 was not measured; the limit is at most 20 ms"


def test_the_default_is_compared_with_the_constraints_as_well(search: Search) -> None:
    advance(search)
    end_round(search, figures, noise=0.0)

    operator = make_user(Role.OPERATOR)
    page = browser(operator).get(reverse("searches_detail", args=[search.pk])).content.decode()

    assert "default: 2 ms, which breaks it" in page


@pytest.mark.thorough
def test_page_api_and_csv_show_the_value_of_each_constraint(search: Search) -> None:
    finish(search, figures)
    client = browser(make_user(Role.OPERATOR))

    page = client.get(reverse("searches_detail", args=[search.pk])).content.decode()
    trials = client.get(f"/api/v1/searches/{search.pk}/trials/").json()["results"]
    body = client.get(f"/api/v1/searches/{search.pk}/").json()
    lines = b"".join(client.get(reverse("searches_csv", args=[search.pk]))).decode().splitlines()  # type: ignore[call-overload]

    broken = search.trials.filter(state=Trial.State.BREAKS_LIMIT).first()
    assert broken and escape(broken.reason) in page
    assert {row["checks"][0]["is_met"] for row in trials} == {True, False}
    assert body["constraints"] == [LIMIT]
    assert {(row["constraint"], row["verdict"]) for row in body["confirmation"]["constraints"]} >= {(LIMIT, "met")}
    assert lines[0] == f"trial,state,reason,blocks,percent,low,high,{LIMIT},work_mem,jit"
    for search_round in search.rounds.select_related("campaign"):
        assert f"Constraints: {LIMIT}." in search_round.campaign.question


def test_the_optimiser_avoids_values_that_break_a_constraint() -> None:
    varied = space.read(["random_page_cost 1 to 9"])
    values = [1 + 8 * share / 19 for share in range(20)]
    # The higher the value, the better the metric, but values above 3 break the constraint.
    tried = [Tried({"random_page_cost": value}, value / 10, False, {"p99": value - 3}) for value in values]

    proposals = optimiser.propose(varied, tried, 10, seed=1)

    unlimited = optimiser.propose(varied, [Tried(trial.values, trial.log_ratio) for trial in tried], 10, seed=1)
    assert sorted(float(proposal["random_page_cost"]) for proposal in proposals)[5] < 4
    assert sorted(float(each["random_page_cost"]) for each in unlimited)[5] > 6


def test_a_failed_run_is_reported_before_a_broken_constraint(search: Search) -> None:
    advance(search)
    end_round(search, figures)
    run = Run.objects.filter(cell={"values": "trial 1"}).first()
    assert run
    Measurement.objects.filter(run=run).delete()
    Run.objects.filter(pk=run.pk).update(outcome=Run.Outcome.FAILED)
    advance(search)

    assert search.trials.get(number=1).state == Trial.State.FAILED
