"""An extended campaign gets whole new blocks, and its pages say that it was extended."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.campaigns import lifecycle
from apps.campaigns.design import plan
from apps.campaigns.design.before_start import previews
from apps.campaigns.models import Campaign, Run
from apps.results import queries
from common.errors import PlanError
from tests.rows.factories import browser, make_campaign

ALL_CPUS: dict[str, Any] = {"label": "4 cpus", "set": {"settings.cpu_affinity.server": "0-3"}}


@pytest.fixture
def finished(admin: User) -> Campaign:
    return make_campaign(Campaign.State.FINISHED, by=admin)


def order(campaign: Campaign) -> list[tuple[int, int, str]]:
    return [(run.position, run.block, run.label) for run in campaign.runs.order_by("position")]


def test_more_repetitions_continue_the_plan_of_the_larger_campaign(finished: Campaign, admin: User) -> None:
    whole = make_campaign(Campaign.State.DRAFT, by=admin, host=finished.host, repetitions=5)
    planned = [(run.position, run.block, ", ".join(run.cell.values())) for run in previews.preview(whole).runs]

    assert lifecycle.extend_campaign(finished, by=admin, repetitions=2) == 4

    assert order(finished) == planned
    assert (finished.state, finished.repetitions, finished.ended_at) == (Campaign.State.RUNNING, 5, None)


def test_a_new_level_comes_in_whole_blocks_beside_the_old_ones(finished: Campaign, admin: User) -> None:
    added = lifecycle.extend_campaign(finished, by=admin, levels={"server cpus": [ALL_CPUS]})

    new = [run for run in finished.runs.order_by("position") if run.state == Run.State.QUEUED]
    assert added == len(new) == 9
    assert {run.block for run in new} == {3, 4, 5}
    for block in (3, 4, 5):
        assert {run.label for run in new if run.block == block} == {"1 cpu", "2 cpus", "4 cpus"}
    assert [level.planned for level in queries.campaign_table(finished).levels] == [6, 6, 3]


def test_an_extension_is_planned_from_current_facts(finished: Campaign, admin: User) -> None:
    newest = finished.host.facts_history.create(number=2, digest="2", data=finished.host.facts)

    lifecycle.extend_campaign(finished, by=admin, repetitions=1)

    assert {run.facts for run in finished.runs.filter(block=3)} == {newest}


def test_running_and_paused_campaigns_keep_their_state_when_extended(admin: User) -> None:
    campaign = make_campaign(Campaign.State.RUNNING, by=admin)
    lifecycle.extend_campaign(campaign, by=admin, repetitions=1)
    assert (campaign.state, campaign.runs.count()) == (Campaign.State.RUNNING, 8)

    lifecycle.pause_campaign(campaign, by=admin)
    lifecycle.extend_campaign(campaign, by=admin, repetitions=1)

    assert (campaign.state, campaign.runs.count()) == (Campaign.State.PAUSED, 10)


@pytest.mark.parametrize(
    ("extension", "message"),
    [
        ({}, "0 is not a number of repetitions"),
        ({"repetitions": 1, "levels": {"cpus": [ALL_CPUS]}}, "factor 'cpus' does not exist"),
        ({"levels": {"server cpus": [ALL_CPUS | {"label": "2 cpus"}]}}, "appears twice"),
        ({"repetitions": plan.MAX_RUNS}, "is not between"),
    ],
)
def test_an_invalid_extension_is_refused_and_changes_nothing(
    finished: Campaign, admin: User, extension: dict[str, Any], message: str
) -> None:
    before = order(finished)

    with pytest.raises(PlanError, match=message):
        lifecycle.extend_campaign(finished, by=admin, **extension)

    finished.refresh_from_db()
    assert (finished.repetitions, finished.state, order(finished)) == (3, Campaign.State.FINISHED, before)


def test_page_api_and_evidence_say_that_results_could_be_seen(finished: Campaign, admin: User, client: Client) -> None:
    lifecycle.extend_campaign(finished, by=admin, repetitions=2)
    client.force_login(admin)

    page = client.get(reverse("campaign_detail", args=[finished.pk])).content.decode()
    extension = browser(admin).get(f"/api/v1/campaigns/{finished.pk}/").json()["extensions"][0]

    assert "by ada after 6 runs had results" in page
    assert "was extended" in page and "by 2 repetitions, 4 runs" in page
    assert {name: extension[name] for name in ("by", "repetitions", "levels", "seen")} == {
        "by": "ada",
        "repetitions": 2,
        "levels": {},
        "seen": 6,
    }
    assert queries.evidence(finished)["campaign"]["extensions"] == [extension]


def test_the_page_types_new_levels_as_the_catalogue_wants(finished: Campaign, admin: User, client: Client) -> None:
    client.force_login(admin)
    address = reverse("campaign_extend", args=[finished.pk])
    assert [(row.factor, row.path) for row in client.get(address).context["rows"]] == [
        ("server cpus", "settings.cpu_affinity.server")
    ]
    typed = {"factor": "server cpus", "level": "4 cpus", "path": "settings.cpu_affinity.server", "value": "0-3"}

    client.post(address, typed | {"repetitions": "1"})

    finished.refresh_from_db()
    assert finished.factors[0]["levels"][-1] == ALL_CPUS
    assert finished.runs.filter(block=3).count() == 3


def test_the_page_shows_the_error_of_a_level_in_its_row(finished: Campaign, admin: User, client: Client) -> None:
    client.force_login(admin)
    typed = {"factor": "server cpus", "level": "more", "path": "settings.cpu_affinity.server", "value": "0-99"}

    answer = client.post(reverse("campaign_extend", args=[finished.pk]), typed | {"repetitions": "1"})

    assert answer.status_code == 422
    assert "0-99" in answer.context["rows"][0].error


def test_the_api_extends(finished: Campaign, admin: User) -> None:
    api: APIClient = browser(admin)

    answer = api.post(f"/api/v1/campaigns/{finished.pk}/extend/", {"repetitions": 2}, format="json").json()

    assert (answer["state"], answer["repetitions"], answer["progress"]["total"]) == ("running", 5, 10)


CACHE = {
    "name": "buffers",
    "levels": [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in ("64MB", "128MB")],
}
BUFFERS_TOO = {"label": "256MB", "set": {"settings.postgresql.shared_buffers": "256MB"}}


def of_design(admin: User, design: str, **fields: Any) -> Campaign:
    fields.setdefault("factors", [*make_campaign(by=admin).factors, CACHE])
    return make_campaign(Campaign.State.FINISHED, by=admin, repetitions=2, design=design, **fields)


def test_a_one_factor_at_a_time_design_is_extended_with_new_levels(admin: User) -> None:
    campaign = of_design(admin, "one_at_a_time")

    lifecycle.extend_campaign(campaign, by=admin, repetitions=1, levels={"buffers": [BUFFERS_TOO]})

    new = {run.label for run in campaign.runs.filter(block=2)}
    assert new == {"1 cpu, 64MB", "2 cpus, 64MB", "1 cpu, 128MB", "1 cpu, 256MB"}
    assert len(queries.campaign_table(campaign).levels) == 4


@pytest.mark.parametrize(
    ("design", "fields"),
    [
        ("random_sample", {"sample": 3}),
        (
            "list",
            {"cells": [{"server cpus": cpus, "buffers": "64MB"} for cpus in ("1 cpu", "2 cpus")]},
        ),
    ],
)
def test_a_design_that_drew_its_combinations_takes_repetitions_of_them(
    admin: User, design: str, fields: dict[str, Any]
) -> None:
    campaign = of_design(admin, design, **fields)
    first = {run.label for run in campaign.runs.filter(block=0)}

    lifecycle.extend_campaign(campaign, by=admin, repetitions=1)

    assert {run.label for run in campaign.runs.filter(block=2)} == first
    assert len(queries.campaign_table(campaign).levels) == len(first)


@pytest.mark.parametrize(
    ("design", "fields"),
    [
        ("random_sample", {"sample": 3}),
        ("list", {"cells": [{"server cpus": "1 cpu", "buffers": "64MB"}]}),
        ("latin_square", {"factors": [CACHE]}),
    ],
)
def test_a_design_that_drew_its_combinations_takes_no_levels(admin: User, design: str, fields: dict[str, Any]) -> None:
    campaign = of_design(admin, design, **fields)

    with pytest.raises(PlanError) as refused:
        lifecycle.extend_campaign(campaign, by=admin, levels={"buffers": [BUFFERS_TOO]})

    assert refused.value.subject == "levels" and "clone" in refused.value.hint
    assert campaign.runs.filter(block=2).count() == 0
