"""Designs, orders and nuisance control on the form, on pages and in the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.campaigns import queries, recipes, services
from apps.campaigns.design import descriptions, plan
from apps.campaigns.design.before_start import previews
from apps.campaigns.models import Campaign, Run
from apps.campaigns.pages import factor_rows
from apps.hosts.models import Host
from common.errors import PlanError
from tests.rows import populate
from tests.rows.factories import browser, make_campaign, make_host

POOL = "settings.postgresql.shared_buffers"
LEVELS = [{"label": size, "set": {POOL: size}} for size in ("128MB", "1GB")]
FACTORS = [{"name": "pool", "levels": LEVELS, "order": "descending"}]


@pytest.fixture
def operator(client: Client, db: None) -> User:
    user = populate.user(Role.OPERATOR)
    client.force_login(user)
    return user


@pytest.fixture
def host(operator: User) -> Host:
    return populate.host()


@pytest.fixture
def typed(host: Host) -> dict[str, Any]:
    """Huge pages off and on, their size where they are on, and two pools."""
    return {
        "recipe": "cpu-scaling",
        "host": str(host.pk),
        "name": "pools and pages",
        "question": "Which pool?",
        "repetitions": "2",
        "order": "randomised",
        "seed": "42",
        "metric": "tps",
        "delta": "2",
        "factor": ["huge pages", "huge pages", "size", "size", "pool", "pool"],
        "level": ["off", "on", "2MB", "1GB", "128MB", "1GB"],
        "path": ["settings.huge_pages.use", "settings.huge_pages.use", *["settings.huge_pages.size"] * 2, POOL, POOL],
        "value": ["off", "on", "2MB", "1GB", "128MB", "1GB"],
        "conditions": "size = 2MB; 1GB only with huge pages = on\n",
        "factor_orders": "pool = descending",
        "warm_up": "steady",
        "cool_down_s": "5",
        "checkpoint": "on",
    }


def test_lines_beside_the_rows_become_conditions_orders_and_nuisance(client: Client, typed: dict[str, Any]) -> None:
    client.post(reverse("campaign_new"), typed)

    made = Campaign.objects.get()
    huge, size, pool = made.factors
    assert [level["when"] for level in size["levels"]] == [{"huge pages": ["on"]}] * 2
    assert (pool["order"], "when" in huge["levels"][0]) == ("descending", False)
    assert made.nuisance == {
        "cool_down_s": 5,
        "checkpoint": True,
        "warm_up": {"until": "steady", "limit_s": 600},
    }
    shown = client.get(reverse("campaign_detail", args=[made.pk])).content.decode()
    assert "Every combination of 2 × 2 × 2 levels that the conditions allow: 6." in shown
    assert "2 blocks of all combinations, each in a random order (seed 42)." in shown
    assert (
        "In each block, pool changes in one direction" in shown and "until its rate is steady, at most 600 s" in shown
    )


def test_conditions_orders_and_combinations_are_shown_as_they_were_entered() -> None:
    text = "size = 2MB; 1GB only with huge pages = on\npool = 8GB only with size = 1GB; 2MB"
    factors = [
        {"name": name, "levels": [{"label": label, "set": {}} for label in labels]}
        for name, labels in (("huge pages", ["off", "on"]), ("size", ["2MB", "1GB"]), ("pool", ["1GB", "8GB"]))
    ]

    arranged = factor_rows.arranged(factors, text, "pool = ascending")

    assert (factor_rows.conditions_of(arranged), factor_rows.orders_of(arranged)) == (text, "pool = ascending")
    cells = factor_rows.cells_of("off;; 1GB\non; 2MB; 8GB", arranged)
    assert cells[0] == {"huge pages": "off", "pool": "1GB"}
    assert factor_rows.cells_text(cells, arranged) == "off; ; 1GB\non; 2MB; 8GB"


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"conditions": "size when on"}, "conditions", "is not a condition"),
        ({"conditions": "sise = 2MB only with huge pages = on"}, "conditions", "is not a factor"),
        ({"conditions": "size = 3MB only with huge pages = on"}, "conditions", "no level"),
        ({"factor_orders": "pol = descending"}, "factor_orders", "is not a factor"),
        ({"factor_orders": "pool = sideways"}, None, "is not an order"),
        ({"design": "list"}, "cells", "this design needs a list of combinations"),
        ({"design": "list", "cells": "on; 2MB"}, "cells", "2 levels for 3 factors"),
        ({"design": "random_sample"}, "sample", "not between"),
        ({"warm_up": "time", "warm_up_s": ""}, "warm_up_s", "Enter a duration in seconds"),
        ({"cool_down_s": "-1"}, "cool_down_s", "greater than or equal"),
    ],
)
def test_an_invalid_value_is_marked_beside_its_field(
    client: Client, typed: dict[str, Any], changes: dict[str, str], field: str | None, message: str
) -> None:
    answer = client.post(reverse("campaign_new"), typed | changes)

    errors = answer.context["form"].errors if field else {None: answer.context["form"].non_field_errors()}
    assert answer.status_code == 422
    assert message in " ".join(errors[field])
    assert not Campaign.objects.exists()


@pytest.mark.parametrize("path", ["steps.measure.clients", "workload.clients"])
def test_a_row_may_name_the_step_of_a_workload_of_one_step(client: Client, typed: dict[str, Any], path: str) -> None:
    rows = {"factor": ["clients"] * 2, "level": ["", ""], "path": [path] * 2, "value": ["8", "16"]}

    client.post(reverse("campaign_new"), typed | rows | {"conditions": "", "factor_orders": ""})

    (factor,) = Campaign.objects.get().factors
    assert [level["set"] for level in factor["levels"]] == [{path: 8}, {path: 16}]


def test_one_row_may_name_several_levels_of_a_number(client: Client, typed: dict[str, Any]) -> None:
    rows = {"factor": ["pool"], "level": [""], "path": [POOL], "value": ["128MB..512MB x2"]}

    client.post(reverse("campaign_new"), typed | rows | {"conditions": "", "factor_orders": ""})

    (factor,) = Campaign.objects.get().factors
    assert [level["label"] for level in factor["levels"]] == ["128MB", "256MB", "512MB"]


@pytest.mark.parametrize("path", ["steps.measure.clients", "workload.clients"])
def test_an_option_that_its_tool_refuses_marks_its_row(client: Client, typed: dict[str, Any], path: str) -> None:
    rows = {"factor": ["clients"] * 2, "level": ["", ""], "path": [path] * 2, "value": ["8", "sixteen"]}

    answer = client.post(reverse("campaign_new"), typed | rows | {"conditions": "", "factor_orders": ""})

    assert answer.status_code == 422
    assert [bool(row.error) for row in answer.context["rows"][:2]] == [False, True]


def test_a_section_of_the_form_is_open_if_it_has_a_value(client: Client, host: Host, typed: dict[str, Any]) -> None:
    plain = client.get(reverse("campaign_new"), {"recipe": "cpu-scaling", "host": host.pk})
    wrong = client.post(reverse("campaign_new"), typed | {"conditions": "?", "checkpoint": "", "seed": ""})

    assert (plain.context["arranged"], plain.context["alike"]) == (False, False)
    assert (wrong.context["arranged"], wrong.context["alike"]) == (True, True)


def test_the_preview_shows_the_design_its_threats_and_the_steps(client: Client, typed: dict[str, Any]) -> None:
    clients = {"factor": ["n", "n"], "level": ["", ""], "path": ["workload.clients"] * 2, "value": ["1", "2"]}
    rows = {name: typed[name] + more for name, more in clients.items()}
    shown = client.post(reverse("campaign_preview"), typed | rows | {"order": "fewest_restarts"}).content.decode()

    assert "24 runs" in shown and "estimate:" in shown
    assert "Runs with the same huge pages, size and pool are grouped: drift" in shown
    assert shown.index("cool-down") < shown.index("warm-up <") < shown.index("checkpoint <")


def test_a_seed_that_is_not_drawn_yet_is_not_shown(client: Client, typed: dict[str, Any]) -> None:
    shown = client.post(reverse("campaign_preview"), typed | {"seed": ""}).content.decode()

    assert "its seed is drawn when the draft is saved" in shown and "Order:" not in shown


def test_the_api_accepts_and_returns_a_design(operator: User) -> None:
    body = {
        "recipe": "cpu-scaling",
        "host": make_host().pk,
        "factors": FACTORS,
        "design": "list",
        "combinations": [{"pool": "1GB"}],
        "order": "abba",
        "nuisance": {"warm_up": {"time_s": 30}},
    }

    made = browser(operator).post("/api/v1/campaigns/", body).json()
    preview = browser(operator).get(f"/api/v1/campaigns/{made['id']}/preview/").json()

    assert made["factors"][0]["order"] == "descending"
    assert (made["combinations"], made["nuisance"]) == ([{"pool": "1GB"}], {"warm_up": {"time_s": 30}})
    assert made["design_sentences"][0] == "The 1 combination that is listed."
    assert any("ABBA" in threat for threat in made["threats"])
    assert {tuple(run["levels"].items()) for run in preview["runs"]} == {(("pool", "1GB"),)}
    assert preview["known"] is False


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"design": "greek"}, "design"),
        ({"design": "list", "combinations": [{"pool": "2GB"}]}, "combinations.0"),
        ({"design": "latin_square", "factors": [*FACTORS, {"name": "b", "levels": LEVELS}]}, "factors"),
        ({"nuisance": {"drop_caches": "often"}}, "nuisance"),
        ({"nuisance": {"warm_up": {"time_s": 5, "until": "steady"}}}, "nuisance.warm_up"),
        ({"nuisance": {"drop_caches": "run"}}, "settings.cache.state"),
    ],
)
def test_the_api_refuses_by_field(operator: User, changes: dict[str, Any], field: str) -> None:
    body = {"recipe": "cpu-scaling", "host": make_host().pk, "factors": FACTORS} | changes

    answer = browser(operator).post("/api/v1/campaigns/", body)

    assert answer.status_code == 400
    assert field in str(answer.json())


def test_recipes_may_name_design_order_nuisance_and_conditions(operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipes.get("cpu-scaling") | {
        "factors": [{"name": "pool", "levels": LEVELS, "order": "ascending"}],
        "design": "one_at_a_time",
        "nuisance": {"cool_down_s": 1},
    }
    monkeypatch.setitem(recipes.catalogue(), "cpu-scaling", recipe)

    made = services.create_from_recipe(by=operator, host=make_host(), recipe="cpu-scaling")
    form = browser(operator).get(reverse("campaign_new") + "?recipe=cpu-scaling").context["form"]

    assert (made.design, made.nuisance, made.factors) == ("one_at_a_time", {"cool_down_s": 1}, recipe["factors"])
    assert (form["design"].value(), form["cool_down_s"].value()) == ("one_at_a_time", 1)
    assert form["factor_orders"].value() == "pool = ascending"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "2 levels of pool."),
        ({"design": "one_at_a_time"}, "One factor at a time, from 128MB: 2 combinations."),
        ({"design": "random_sample", "sample": 1}, "1 combination drawn from a space of up to 2 (seed 1)."),
        ({"design": "latin_square"}, "each a row of a Latin square: every level once at each"),
        ({"order": "abba"}, "2 blocks of all combinations, in the given order, every second block backwards (ABBA)."),
        ({"order": "fewest_restarts"}, "with as few restarts as possible, otherwise in a random"),
        ({"reboot": "each_run"}, "The host is restarted before each run."),
        ({"nuisance": {"cool_down_s": 10}}, "Before each run the host cools down for 10 s."),
        ({"nuisance": {"warm_up": {"time_s": 30}}}, "The first measured load runs before it as a warm-up, for 30 s."),
        ({"nuisance": {"checkpoint": True}}, "Before each measured step a CHECKPOINT runs."),
    ],
)
def test_a_design_is_described_in_sentences(db: None, fields: dict[str, Any], sentence: str) -> None:
    campaign = Campaign(factors=[{"name": "pool", "levels": LEVELS}], repetitions=2, seed=1, **fields)

    assert any(sentence in line for line in descriptions.sentences(campaign))


def test_hours_come_from_earlier_runs_of_the_same_shape_on_that_host(db: None) -> None:
    past = make_campaign(Campaign.State.RUNNING)
    begun, specs = timezone.now(), [run.spec for run in past.runs.all()]
    for run in past.runs.all():
        took = timedelta(seconds=plan.seconds(run.spec, overhead_s=20))
        Run.objects.filter(pk=run.pk).update(
            state=Run.State.ENDED, outcome=Run.Outcome.OK, started_at=begun, ended_at=begun + took
        )

    learned = queries.overheads(past.host, plan.REBOOT_S)
    again = previews.preview(make_campaign(host=past.host))
    other = previews.preview(make_campaign(host=past.host, nuisance={"cool_down_s": 100}))

    assert learned == {plan.shape(specs[0]): pytest.approx(20)}
    assert again.known and again.seconds == pytest.approx(sum(plan.seconds(r.spec, 20) for r in again.runs))
    assert not other.known and other.seconds == pytest.approx(sum(plan.seconds(r.spec) for r in other.runs))
    assert other.seconds > 100 * len(other.runs)


def test_an_invalid_combination_is_refused_by_its_position(db: None) -> None:
    with pytest.raises(PlanError) as refused:
        make_campaign(design="list", cells=[{"server cpus": "3 cpus"}])

    assert refused.value.subject == "cells.0"


@pytest.mark.parametrize("path", ["workload.clients", POOL])
def test_an_order_that_saves_no_restart_says_so(db: None, path: str) -> None:
    levels = [{"label": str(n), "set": {path: n}} for n in (1, 2)]
    campaign = Campaign(factors=[{"name": "n", "levels": levels}], order="fewest_restarts", seed=1)

    assert "the order is that of randomised blocks" in descriptions.threats(campaign)[0]


@pytest.mark.parametrize(
    ("target", "ending"),
    [
        ({"remote": "managed"}, "wider, because they include the variation between starts."),
        ({}, "Each run starts PostgreSQL, so the order saves no restarts of it."),
    ],
)
def test_an_order_that_groups_runs_says_whether_they_share_a_start(
    db: None, target: dict[str, str], ending: str
) -> None:
    memory = [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in ("1GB", "2GB")]
    clients = [{"label": str(n), "set": {"workload.clients": n}} for n in (1, 2)]
    factors = [{"name": "memory", "levels": memory}, {"name": "clients", "levels": clients}]
    campaign = Campaign(factors=factors, order="fewest_restarts", seed=1, target=target)

    (threat,) = descriptions.threats(campaign)

    assert "affects whole groups" in threat
    assert threat.endswith(ending)


def test_an_order_that_groups_runs_by_boot_says_that_they_share_it(db: None) -> None:
    boots = [{"label": str(n), "set": {"settings.kernel_command_line.skew_tick": n}} for n in (0, 1)]
    clients = [{"label": str(n), "set": {"workload.clients": n}} for n in (1, 2)]
    factors = [{"name": "skew_tick", "levels": boots}, {"name": "clients", "levels": clients}]
    campaign = Campaign(factors=factors, order="fewest_restarts", seed=1)

    (threat,) = descriptions.threats(campaign)

    assert threat.startswith("Runs with the same skew_tick are grouped")
    assert threat.endswith("CIs between boots of the host are wider, because they include the variation between boots.")
