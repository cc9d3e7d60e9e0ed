"""Pages and API of a search: what they show, which roles they need, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from apps.accounts.models import Membership, Role, Team, User
from apps.campaigns.models import Campaign
from apps.campaigns.twins import services as twins
from apps.searches import queries
from apps.searches.models import Search, Trial
from tests.rows import searched
from tests.rows.factories import browser, make_campaign, make_host, make_search, make_user

pytestmark = pytest.mark.django_db
CAPTURE = Path(__file__).parents[2] / "contract" / "captures" / "shop-18.jsonl"
BODY = {"name": "memory", "space": ["work_mem 1MB to 64MB log"], "budget_runs": 75}


@pytest.fixture
def campaign() -> Campaign:
    return make_campaign()


def create(campaign: Campaign, role: Role = Role.OPERATOR, **changes: Any) -> Any:
    return browser(make_user(role)).post("/api/v1/searches/", {"campaign": str(campaign.pk), **BODY, **changes}, "json")


def test_a_search_is_created_with_its_sizes_and_shown(campaign: Campaign) -> None:
    made = create(campaign, seed=5, candidates=3)

    assert made.status_code == 201, made.json()
    body = made.json()
    assert (body["state"], body["seed"], body["candidates"], body["spent_runs"]) == ("running", 5, 3, 0)
    assert body["confirmation"] is None
    assert Search.objects.get().campaign == campaign


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"space": ["work_mem 2MB to 1MB"]}, "space.1", "not a range"),
        ({"space": ["shared_buffers 1GB to 64GB log"]}, "space.1", "exceeds the memory"),
        ({"space": ["fsync on, off"]}, "space.1", "risks data"),
        ({"budget_runs": 10}, "budget_runs", "from 20 to 10,000"),
        ({"confirmation_blocks": 2}, "confirmation_blocks", "from 3 to 100"),
    ],
)
def test_an_invalid_search_is_refused_with_its_field(
    campaign: Campaign, changes: dict[str, Any], field: str, message: str
) -> None:
    refused = create(campaign, **changes)

    assert refused.status_code == 400, refused.json()
    assert refused.json()["field"] == field
    assert message in str(refused.json())


def test_only_an_admin_allows_settings_that_risk_data(campaign: Campaign) -> None:
    risky = {"space": ["fsync on, off"], "allowed_risks": ["fsync"]}

    assert create(campaign, Role.TUNER, **risky).status_code == 403
    assert create(campaign, Role.ADMIN, **risky).status_code == 201


@pytest.mark.thorough
def test_a_search_names_its_risks_on_its_page_and_in_the_question_of_each_campaign(campaign: Campaign) -> None:
    admin = make_user(Role.ADMIN)
    search = make_search(campaign, admin, space=["fsync on, off", "jit on, off"], allowed_risks=["fsync"])

    searched.finish(search, lambda values: 1200.0 if values.get("fsync") == "off" else 1000.0)

    page = browser(admin).get(reverse("searches_detail", args=[search.pk])).content.decode()
    assert "An admin allowed settings that risk data" in page
    for search_round in search.rounds.select_related("campaign"):
        assert "fsync: a crash can corrupt the cluster" in search_round.campaign.question


def test_the_form_starts_a_search_or_shows_the_error(campaign: Campaign) -> None:
    client = Client()
    client.force_login(make_user(Role.OPERATOR))
    address = reverse("searches_add") + f"?campaign={campaign.pk}"
    sizes = {"candidates": 4, "blocks": 2, "finalists": 2, "confirmation_blocks": 5, "budget_runs": 75}

    wrong = client.post(address, {"name": "memory", "space": "work_mem 2MB to 1MB", **sizes})
    assert wrong.status_code == 422
    assert "is not a range" in wrong.content.decode()

    started = client.post(address, {"name": "memory", "space": "work_mem 1MB to 64MB log\njit on, off", **sizes})
    search = Search.objects.get()
    assert started["Location"] == reverse("searches_detail", args=[search.pk])
    assert search.space == ["work_mem 1MB to 64MB log", "jit on, off"]


@pytest.mark.thorough
def test_the_page_of_a_search_shows_its_trials_and_the_verdict_of_its_confirmation(campaign: Campaign) -> None:
    tuner = make_user(Role.TUNER)
    search = searched.finished(campaign, tuner)

    page = browser(tuner).get(reverse("searches_detail", args=[search.pk])).content.decode()

    confirmed = queries.confirmation(search)
    assert confirmed and confirmed.is_better
    assert all(escape(sentence) in page for sentence in confirmed.findings)
    assert "Write a decision" in page
    assert page.count("<tr data-row>") == search.trials.count()
    for trial in search.trials.filter(state=Trial.State.FAILED):
        assert trial.reason in page


@pytest.mark.thorough
def test_a_confirmation_that_runs_a_twin_shows_its_fidelity(campaign: Campaign, admin: User) -> None:
    tuner = make_user(Role.TUNER)
    search = searched.finished(campaign, tuner)
    twin = twins.create("shop", CAPTURE.read_bytes(), by=admin)
    Campaign.objects.update(workload=twin.workload, dataset=twin.dataset)

    page = browser(tuner).get(reverse("searches_detail", args=[search.pk])).content.decode()
    body = browser(tuner).get(f"/api/v1/searches/{search.pk}/").json()

    assert "<li>twin, fidelity unknown</li>" in page
    assert body["confirmation"]["twin"] == "twin, fidelity unknown"


def test_the_page_and_the_api_show_both_limits_and_the_remaining_time(campaign: Campaign) -> None:
    operator = make_user(Role.OPERATOR)
    search = make_search(campaign, operator, budget_minutes=60)
    searched.advance(search)
    searched.end_round(search)

    page = browser(operator).get(reverse("searches_detail", args=[search.pk])).content.decode()
    body = browser(operator).get(f"/api/v1/searches/{search.pk}/").json()

    assert "8 of 40 runs · 1 of 60 minutes" in " ".join(page.split())
    assert "about 5 min" in page
    assert (body["budget_minutes"], body["remaining_s"]) == (60, pytest.approx(320.0, abs=1))
    assert body["spent_minutes"] == pytest.approx(80 / 60, abs=0.1)


def test_operators_of_another_team_can_read_a_search_but_not_change_it() -> None:
    team, other = (Team.objects.create(name=name) for name in ("storage", "network"))
    admin = make_user(Role.ADMIN)
    search = make_search(make_campaign(host=make_host(team=team), by=admin), by=admin)
    stranger = make_user()
    Membership.objects.create(team=other, user=stranger, role=Role.OPERATOR)
    client = browser(stranger)

    assert client.get(f"/api/v1/searches/{search.pk}/").status_code == 200
    assert client.post(f"/api/v1/searches/{search.pk}/stop/").status_code == 403
    assert client.post(reverse("searches_action", args=[search.pk, "pause"])).status_code == 403
    assert [row["id"] for row in client.get(f"/api/v1/searches/?team={team.pk}").json()["results"]] == [str(search.pk)]
    assert client.get(f"/api/v1/searches/?team={other.pk}").json()["results"] == []


@pytest.mark.thorough
def test_the_charts_of_a_search_have_each_trial_once_and_the_csv_a_line_for_each(campaign: Campaign) -> None:
    search = searched.finished(campaign, make_user(Role.TUNER))
    client = browser(make_user())
    trials = search.trials.count()
    measured = search.trials.filter(state=Trial.State.MEASURED).count()

    effects = client.get(reverse("searches_figure", args=[search.pk, "trials"])).json()
    numbers = [number for trace in effects["data"] if trace["mode"] == "markers" for number in trace["x"]]
    assert sorted(numbers) == list(range(1, trials + 1))
    best = next(trace for trace in effects["data"] if trace["name"] == "best so far")
    assert best["y"] == sorted(best["y"]) and best["y"][-1] > 0

    parallel = client.get(reverse("searches_figure", args=[search.pk, "parallel"])).json()
    assert len(parallel["data"]) == trials
    assert sum(trace["line"]["dash"] == "solid" for trace in parallel["data"]) == measured
    assert all(0 <= position <= 1 for trace in parallel["data"] for position in trace["y"])

    lines = b"".join(client.get(reverse("searches_csv", args=[search.pk]))).decode().splitlines()  # type: ignore[call-overload]
    assert lines[0] == "trial,state,reason,blocks,percent,low,high,work_mem,jit"
    assert len(lines) == trials + 1


@pytest.mark.thorough
def test_the_slices_have_a_panel_for_each_setting_and_fewer_columns_on_a_narrow_page(campaign: Campaign) -> None:
    search = searched.finished(campaign, make_user(Role.TUNER))
    client = browser(make_user())
    address = reverse("searches_figure", args=[search.pk, "slices"])

    wide, narrow = (client.get(f"{address}?width={width}").json() for width in (1200, 360))

    assert [wide["layout"][axis]["title"]["text"] for axis in ("xaxis", "xaxis2")] == ["work_mem", "jit"]
    assert wide["layout"]["yaxis"]["domain"] == wide["layout"]["yaxis2"]["domain"]
    assert narrow["layout"]["yaxis"]["domain"] != narrow["layout"]["yaxis2"]["domain"]
    points = [x for trace in wide["data"] if trace["xaxis"] == "x" for x in trace["x"]]
    assert len(points) == search.trials.count()


def test_a_named_space_is_scaled_to_the_host_in_the_form_and_in_the_api(campaign: Campaign) -> None:
    client = browser(make_user(Role.OPERATOR))
    address = reverse("searches_add") + f"?campaign={campaign.pk}&space=tune-memory"

    form = client.get(address).content.decode()
    made = create(campaign, space=["tune-memory", "jit on, off"])

    assert "shared_buffers 244MB to 3906MB log" in form
    assert made.json()["space"][0] == "shared_buffers 244MB to 3906MB log"
    assert made.json()["space"][-1] == "jit on, off"


def test_the_number_of_runs_to_add_is_not_refreshed_while_a_user_enters_it(campaign: Campaign) -> None:
    operator = make_user(Role.OPERATOR)
    search = make_search(campaign, operator)

    page = browser(operator).get(reverse("searches_detail", args=[search.pk])).content.decode()

    refreshed = page[page.index('id="actions"') :].split("</div>")[0]
    assert "Pause search" in refreshed and "Extend budget" not in refreshed
    assert "Extend budget" in page


@pytest.mark.thorough
def test_an_interval_that_is_much_wider_than_the_others_does_not_hide_the_effects() -> None:
    search = searched.advance(make_search())
    searched.end_round(search)
    searched.advance(search)
    search.trials.filter(number=1).update(log_ratio=0.1, low=-3.0, high=3.0)
    search.trials.filter(number=2).update(log_ratio=-0.1, low=-0.12, high=-0.08)
    search.trials.filter(number=3).update(log_ratio=0.0, low=None, high=None)

    figure = browser(search.owner).get(reverse("searches_figure", args=[search.pk, "trials"])).json()

    low, high = figure["layout"]["yaxis"]["range"]
    assert low < -9.6 and high > 10.6  # all means, of -9.5 % to +10.5 %
    assert high - low < 3 * (10.6 + 9.6)
