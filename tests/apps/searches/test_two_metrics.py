"""A search with two metrics: its trials against the Pareto front, its finalists, and a verdict by each metric."""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.searches import optimiser, queries, rounds, services, space
from apps.searches.models import Round, Search, Trial
from apps.searches.optimiser import Tried
from common.errors import PlanError
from tests.rows.factories import browser, make_campaign, make_search, make_user, script
from tests.rows.searched import advance, end_round

pytestmark = pytest.mark.django_db
SECOND = "latency_avg"
DEFAULT_KB = 4096


def octaves(values: dict[str, Any]) -> float:
    """Of work_mem above the default."""
    return math.log2(values.get("work_mem", DEFAULT_KB) / DEFAULT_KB)


def tps(values: dict[str, Any]) -> float:
    """Grows with work_mem; jit costs some of it."""
    return 1000.0 * 1.1 ** octaves(values) * (0.8 if values.get("jit") == "on" else 1.0)


def latency_ms(values: dict[str, Any]) -> float:
    """Grows with work_mem as well, so that no value is best by both; jit costs some of it."""
    return 20.0 * 1.1 ** octaves(values) * (1.25 if values.get("jit") == "on" else 1.0)


def two_metrics(**fields: Any) -> Search:
    sizes = {"candidates": 4, "blocks": 2, "finalists": 2, "confirmation_blocks": 5, "budget_runs": 65}
    return make_search(second_metric=SECOND, **(sizes | fields))


def finish(search: Search) -> Search:
    while advance(search).state == Search.State.RUNNING:
        end_round(search, tps, latency_ms=latency_ms)
    return search


def confirmed(search: Search) -> list[int]:
    levels = search.rounds.get(kind=Round.Kind.CONFIRMATION).campaign.factors[0]["levels"]
    return [int(level["label"].removeprefix("trial ")) for level in levels if level["label"] != "default"]


@pytest.mark.thorough
def test_a_trial_has_a_log_ratio_by_each_metric_above_0_if_it_is_better() -> None:
    search = advance(two_metrics())
    end_round(search, lambda values: 2000.0 if values else 1000.0, 0.0, latency_ms=lambda v: 40.0 if v else 20.0)
    advance(search)

    trial = search.trials.get(number=1)
    [row, *_] = queries.trial_rows(search, [trial])

    assert trial.log_ratio == pytest.approx(math.log(2))
    assert trial.second_log_ratio == pytest.approx(-math.log(2))
    assert (row.percent, row.second[0]) == (pytest.approx(100), pytest.approx(100))


@pytest.mark.thorough
def test_a_run_without_the_second_metric_has_no_result() -> None:
    search = advance(two_metrics())
    campaign = end_round(search, tps, latency_ms=latency_ms)
    for run in campaign.runs.filter(cell__values="trial 1"):
        run.measurements.filter(name=SECOND).delete()
    advance(search)

    assert search.trials.get(number=1).blocks == 0
    assert search.trials.get(number=2).blocks == 2


@pytest.mark.thorough
def test_the_best_trials_by_both_metrics_run_again_and_the_ends_of_the_front_are_confirmed() -> None:
    search = finish(two_metrics())

    front = queries.front_of(search)
    assert front is not None
    means = {number: front.means[number] for number in front.best}
    one, other = confirmed(search)
    assert {one, other} <= set(front.best)
    assert min(means, key=lambda number: means[number][0]) in (one, other)
    assert max(means, key=lambda number: means[number][0]) in (one, other)
    assert {trial.values["jit"] for trial in search.trials.filter(number__in=(one, other))} == {"off"}
    assert search.trials.filter(number__in=front.best, blocks__gt=2).exists()


@pytest.mark.thorough
def test_a_confirmation_has_a_verdict_by_each_metric_and_names_no_winner() -> None:
    confirmation = queries.confirmation(finish(two_metrics()))

    assert confirmation is not None
    assert len(confirmation.findings) == 4
    assert [finding.split(":")[0] for finding in confirmation.findings] == ["By tps", f"By {SECOND}"] * 2
    assert not confirmation.is_better  # what one metric gains, the other loses
    assert f"Judge them by tps and by {SECOND}." in confirmation.campaign.question


@pytest.mark.thorough
def test_a_candidate_that_is_better_by_a_metric_and_worse_by_none_is_a_gain() -> None:
    search = two_metrics()
    while advance(search).state == Search.State.RUNNING:
        end_round(search, lambda values: 1500.0 if values else 1000.0, latency_ms=lambda _: 20.0)

    confirmation = queries.confirmation(search)

    assert confirmation is not None and confirmation.is_better


@pytest.mark.thorough
def test_a_search_without_a_trial_above_the_default_by_either_metric_ends_without_a_confirmation() -> None:
    search = two_metrics()
    while advance(search).state == Search.State.RUNNING:
        end_round(search, lambda values: 500.0 if values else 1000.0, latency_ms=lambda v: 40.0 if v else 20.0)

    assert search.state_reason == rounds.NOTHING_BETTER_BY_ANY
    assert not search.rounds.filter(kind=Round.Kind.CONFIRMATION).exists()


@pytest.mark.thorough
def test_a_trial_that_varies_by_the_second_metric_only_is_unstable() -> None:
    search = two_metrics(blocks=4, budget_runs=200)
    advance(search)
    campaign = end_round(search, tps, latency_ms=latency_ms)
    for run in campaign.runs.filter(cell__values="trial 1"):
        run.measurements.filter(name=SECOND).update(value=20.0 if run.block % 2 else 200.0)
    advance(search)

    assert search.trials.get(number=1).state == Trial.State.UNSTABLE
    assert search.trials.get(number=2).state == Trial.State.MEASURED


@pytest.mark.thorough
def test_picked_trials_are_confirmed_instead_of_the_ends() -> None:
    search = advance(two_metrics(budget_runs=75))
    end_round(search, tps, latency_ms=latency_ms)
    advance(search)

    services.pick_trials(search, by=search.owner, trials=[3, 1, 2, 3])
    finish(search)

    assert confirmed(search) == [1, 2, 3]
    assert search.rounds.get(kind=Round.Kind.CONFIRMATION).campaign.runs.count() == 20


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ([99], "trial 99 has no result that can be confirmed"),
        (list(range(1, 12)), "11 trials are too many"),
        ([1, 2, 3, 4], "their confirmation needs 25 runs, and 15 are left"),
    ],
)
def test_trials_that_cannot_be_confirmed_cannot_be_picked(numbers: list[int], error: str) -> None:
    search = advance(two_metrics(budget_runs=25))
    end_round(search, tps, latency_ms=latency_ms)
    search.trials.update(state=Trial.State.MEASURED)

    with pytest.raises(PlanError, match=error):
        services.pick_trials(search, by=search.owner, trials=numbers)
    search.refresh_from_db()
    assert search.picked == []


@pytest.mark.parametrize(
    ("fields", "field", "error"),
    [
        ({"second_metric": "tps"}, "second_metric", "tps is the first metric"),
        ({"second_metric": "speed"}, "second_metric", "'speed' is not measured"),
        ({"finalists": 1}, "finalists", "1 is too few for two metrics"),
    ],
)
def test_a_search_with_a_wrong_second_metric_is_refused(fields: dict[str, Any], field: str, error: str) -> None:
    with pytest.raises(PlanError, match=error) as refused:
        make_search(**({"second_metric": SECOND, "finalists": 2} | fields))

    assert refused.value.subject == field


def test_the_optimiser_proposes_values_near_the_front_of_two_metrics() -> None:
    varied = space.read(["work_mem 64kB to 1GB log", "jit on, off"])
    tried = [
        Tried({"work_mem": 2**power, "jit": jit}, power - (5.0 if jit == "on" else 0.0), second=-power - (jit == "on"))
        for power in range(6, 21)
        for jit in ("on", "off")
    ]

    proposals = [each for seed in range(6) for each in optimiser.propose(varied, tried, 4, seed, metrics=2)]

    assert sum(proposal["jit"] == "off" for proposal in proposals) > 0.75 * len(proposals)


def test_a_bad_trial_is_worse_than_all_others_by_both_metrics() -> None:
    varied = space.read(["work_mem 64kB to 1GB log"])
    good, bad = Tried({"work_mem": 64}, 0.1, second=-0.7), Tried({"work_mem": 128}, None, bad=True)

    values = [each.values for each in optimiser._history(varied, [good, bad], 2)]

    assert values == [[0.1, -0.7], [-0.5, -1.2]]


@pytest.mark.thorough
def test_page_chart_and_csv_show_both_metrics_and_the_front(client: Any) -> None:
    search = finish(two_metrics())
    user = browser(search.owner)

    page = user.get(reverse("searches_detail", args=[search.pk])).content.decode()
    figure = user.get(reverse("searches_figure", args=[search.pk, "pareto"])).json()
    lines = b"".join(user.get(reverse("searches_csv", args=[search.pk])).streaming_content).decode().splitlines()

    assert "Pareto front" in page and f"Effect on {SECOND}" in page and "on the front" in page
    assert "By tps: " in page
    traces = {each["name"]: each for each in figure["data"]}
    front = queries.front_of(search)
    assert front is not None
    assert len(traces["on the front"]["x"]) == len(front.best)
    assert traces["on the front"]["x"] == sorted(traces["on the front"]["x"])
    assert all(bar > 0 for bar in traces["on the front"]["error_x"]["array"])
    assert figure["layout"]["yaxis"]["title"]["text"] == f"{SECOND} (%), lower is better"
    assert "second_percent,second_low,second_high,front" in lines[0]
    assert lines[1].count(",") == lines[0].count(",")


def test_a_search_with_one_metric_has_no_pareto_chart() -> None:
    search = make_search()
    user = browser(search.owner)

    assert user.get(reverse("searches_figure", args=[search.pk, "pareto"])).status_code == 404
    assert "Pareto" not in user.get(reverse("searches_detail", args=[search.pk])).content.decode()


@pytest.mark.thorough
def test_the_api_creates_shows_and_picks(operator_campaign: tuple[User, Any]) -> None:
    user, campaign = operator_campaign
    api = script(user)
    body = {"campaign": str(campaign.pk), "name": "both", "space": ["work_mem 64kB to 1GB log", "jit on, off"]}
    created = api.post("/api/v1/searches/", body | {"second_metric": SECOND, "budget_runs": 75}, format="json")
    search = advance(Search.objects.get(pk=created.json()["id"]))
    end_round(search, tps, latency_ms=latency_ms)
    advance(search)

    trial = api.get(f"/api/v1/searches/{search.pk}/trials/").json()["results"][0]
    picked = api.post(f"/api/v1/searches/{search.pk}/pick/", {"trials": [2]}, format="json").json()

    assert created.json()["second_metric"] == SECOND
    assert trial["front"] in queries.FRONT
    assert trial["second_change"]["mean"] == pytest.approx(100 * math.expm1(-trial["second_log_ratio"]))
    assert picked["picked"] == [2]


@pytest.fixture
def operator_campaign() -> tuple[User, Any]:
    return make_user(Role.OPERATOR), make_campaign()
