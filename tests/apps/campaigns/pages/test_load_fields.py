"""Clients, duration and scale of a campaign's load, as plain fields of the form."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.campaigns.design.before_start import previews
from apps.campaigns.design.factors import varied_names
from apps.campaigns.design.steps import single
from apps.campaigns.library import datasets, workloads
from apps.campaigns.models import Campaign
from apps.campaigns.recipes.scale import cpus
from tests.rows import populate
from tests.rows.factories import make_twin, make_user

WORK_MEM = "settings.postgresql.work_mem"


@pytest.fixture
def operator(client: Client, db: None) -> User:
    user = populate.user(Role.OPERATOR)
    client.force_login(user)
    return user


@pytest.fixture
def typed(operator: User) -> dict[str, Any]:
    """The form of a campaign from scratch that compares two values of a setting, without a workload."""
    return {
        "host": str(populate.host().pk),
        "name": "work_mem",
        "question": "Does work_mem help?",
        "repetitions": "3",
        "order": "randomised",
        "metric": "tps",
        "delta": "2",
        "factor": ["work_mem"],
        "level": [""],
        "path": [WORK_MEM],
        "value": ["4MB, 64MB"],
    }


def spec_options(campaign: Campaign) -> dict[str, Any]:
    options: dict[str, Any] = previews.preview(campaign).runs[0].spec["steps"][0]["options"]
    return options


def test_the_fields_set_options_of_all_runs_and_the_workload_may_be_left_out(
    client: Client, typed: dict[str, Any]
) -> None:
    client.post(reverse("campaign_new"), typed | {"clients": "16", "time_s": "5", "scale": "3"})

    made = Campaign.objects.get()
    options = spec_options(made)
    assert (options["builtin"], options["clients"], options["time_s"], options["scale"]) == ("tpcb-like", 16, 5, 3)
    assert len(previews.preview(made).runs) == 6
    assert varied_names(made.factors) == "work_mem"  # in the titles of its table and its chart


def test_a_clone_shows_them_in_their_fields_and_not_among_the_factors(client: Client, typed: dict[str, Any]) -> None:
    client.post(reverse("campaign_new"), typed | {"clients": "16", "time_s": "5"})

    shown = client.get(reverse("campaign_new"), {"from": Campaign.objects.get().pk})

    form = shown.context["form"]
    assert (form["clients"].value(), form["time_s"].value(), form["scale"].value()) == (16, 5, None)
    assert {row.path for row in shown.context["rows"]} == {WORK_MEM}


def test_an_empty_field_shows_the_value_of_the_workload(client: Client, operator: User) -> None:
    shown = client.get(reverse("campaign_new"), {"scratch": "1"})

    assert shown.context["form"].fields["time_s"].widget.attrs["placeholder"] == "30"


def preview(client: Client, typed: dict[str, Any]) -> str:
    return client.post(reverse("campaign_preview"), typed).content.decode()


def test_an_empty_field_shows_the_value_of_the_chosen_workload_and_data_set(
    client: Client, typed: dict[str, Any]
) -> None:
    by = populate.user(Role.TUNER)
    workload = workloads.save_workload("own", single("pgbench", {"clients": 64, "time_s": 7}), by=by)
    dataset = datasets.save_dataset("large", "pgbench", {"scale": 900}, by=by)

    shown = preview(client, typed | {"workload": workload.pk, "dataset": dataset.pk, "name": ""})

    for name, value in (("clients", 64), ("time_s", 7), ("scale", 900)):
        assert f'data-default-of="{name}" value="{value}"' in shown


def test_an_empty_field_shows_the_value_of_the_workload_of_a_twin(client: Client, operator: User) -> None:
    author = make_user(Role.TUNER)
    author.may_run_commands = True
    author.save()
    script = {"name": "s01", "weight": 1, "text": "select /* s01 */ 1;"}
    workload = workloads.save_workload("twin", single("pgbench", {"scripts": [script], "clients": 12}), by=author)
    twin = make_twin(workload=workload)

    shown = client.get(reverse("campaign_new"), {"scratch": "1", "twin": twin.pk})

    form = shown.context["form"]
    assert form.fields["clients"].widget.attrs["placeholder"] == "12"
    assert (form["workload"].value(), form["dataset"].value()) == (workload.pk, twin.dataset_id)
    assert f'value="{workload.pk}" selected' in shown.content.decode()


def test_a_number_of_a_recipe_that_depends_on_the_host_is_shown_for_the_chosen_host(
    client: Client, operator: User
) -> None:
    host = populate.host()

    shown = client.get(reverse("campaign_new"), {"recipe": "active-set", "host": host.pk})
    unknown = client.get(reverse("campaign_new"), {"recipe": "active-set", "host": "0"})

    placeholders = [page.context["form"].fields["clients"].widget.attrs["placeholder"] for page in (shown, unknown)]
    assert placeholders == [str(cpus(host.facts)), ""]


def test_they_are_not_in_the_order_of_runs(client: Client, typed: dict[str, Any]) -> None:
    typed |= {"clients": "16", "time_s": "5", "order": "as_given"}
    client.post(reverse("campaign_new"), typed)

    page = client.get(reverse("campaign_detail", args=[Campaign.objects.get().pk])).content.decode()

    assert "Order: 4MB → 64MB;" in preview(client, typed)
    assert "<td>4MB</td>" in page and "16, 5" not in page


@pytest.mark.parametrize("design", ["list", "latin_square"])
def test_they_do_not_count_as_factors_of_a_design(client: Client, typed: dict[str, Any], design: str) -> None:
    cells = "4MB\n64MB" if design == "list" else ""
    client.post(reverse("campaign_new"), typed | {"clients": "16", "design": design, "cells": cells, "repetitions": 2})

    made = Campaign.objects.get()
    assert len(previews.preview(made).runs) == 4
    assert spec_options(made)["clients"] == 16
    edited = client.get(reverse("campaign_new"), {"from": made.pk, "replace": "1"})
    assert edited.context["form"]["cells"].value() == cells


def test_a_field_and_a_factor_that_set_the_same_option_are_refused(client: Client, typed: dict[str, Any]) -> None:
    rows = {"factor": ["c"], "level": [""], "path": ["workload.clients"], "value": ["1, 4"]}

    answer = client.post(reverse("campaign_new"), typed | rows | {"clients": "16"})

    message = "A factor sets workload.clients. Leave this field empty, or remove the factor."
    assert answer.context["form"].errors == {"clients": [message]}


def test_an_option_that_the_workload_lacks_is_refused_at_its_field(client: Client, typed: dict[str, Any]) -> None:
    orders = workloads.save_workload("orders", single("tpcc", {}), by=populate.user(Role.TUNER))

    answer = client.post(reverse("campaign_new"), typed | {"workload": orders.pk, "scale": "16"})

    form = answer.context["form"]
    assert "this workload has no such option" in form.errors.get("scale", [str(form.errors)])[0].lower()


def test_a_campaign_is_started_from_its_form(client: Client, typed: dict[str, Any]) -> None:
    client.post(reverse("campaign_new"), typed | {"start": "1"})

    made = Campaign.objects.get()
    assert (made.state, made.runs.count()) == (Campaign.State.RUNNING, 6)


def test_a_campaign_that_cannot_start_stays_a_draft_and_says_why(client: Client, typed: dict[str, Any]) -> None:
    rows = {"factor": ["huge"] * 2, "level": ["off", "on"], "path": ["settings.huge_pages.use"] * 2}
    rows["value"] = ["off", "on"]
    pool = {"factor": [*rows["factor"], "huge"], "level": [*rows["level"], "on"]}
    pool |= {"path": [*rows["path"], "settings.huge_pages.pool"], "value": [*rows["value"], "10000000"]}

    answer = client.post(reverse("campaign_new"), typed | pool | {"start": "1"}, follow=True)

    assert Campaign.objects.get().state == Campaign.State.DRAFT
    assert "This campaign cannot start now." in answer.content.decode()
