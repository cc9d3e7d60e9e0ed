"""Settings that are added to a search, or fixed, while it runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role
from apps.campaigns import history
from apps.searches import services
from apps.searches.models import Round, Search
from common.errors import PlanError
from tests.rows.factories import browser, make_search
from tests.rows.searched import advance, end_round, finish, planted

pytestmark = pytest.mark.django_db


@pytest.fixture
def search() -> Search:
    made = make_search(budget_runs=60)
    advance(made)
    end_round(made)
    return made


def test_a_setting_that_is_added_is_varied_from_the_next_round_on(search: Search) -> None:
    services.change_search(search, by=search.owner, add=["random_page_cost 1 to 4"])
    advance(search)

    assert all("random_page_cost" not in trial.values for trial in search.trials.filter(number__lte=3))
    new = search.trials.filter(number__gt=3)
    assert new and all(1 <= each.values["random_page_cost"] <= 4 for each in new)
    levels = search.rounds.get(number=2).campaign.factors[0]["levels"]
    for level in levels:
        is_new = level["label"] in [each.label for each in new]
        assert ("settings.postgresql.random_page_cost" in level["set"]) == is_new


def test_a_fixed_setting_has_its_value_in_all_new_candidates_until_it_varies_again(search: Search) -> None:
    services.change_search(search, by=search.owner, fix={"work_mem": "16MB"})
    advance(search)
    services.change_search(search, by=search.owner, free=["work_mem"])
    end_round(search)
    advance(search)

    second = search.trials.filter(number__gt=3, number__lte=5)
    assert {each.values["work_mem"] for each in second} == {16384}
    assert search.fixed == {}
    assert any(trial.values["work_mem"] != 16384 for trial in search.trials.filter(number__gt=5))


@pytest.mark.thorough
def test_trials_without_a_fixed_value_are_neither_run_again_nor_confirmed(search: Search) -> None:
    services.change_search(search, by=search.owner, fix={"jit": "on"})
    finish(search, lambda values: planted(values) * (4 if values else 1))  # type: ignore[operator]

    for search_round in search.rounds.filter(number__gt=1):
        for level in search_round.campaign.factors[0]["levels"][1:]:
            assert level["set"]["settings.postgresql.jit"] == "on"
    assert search.rounds.filter(kind=Round.Kind.CONFIRMATION).exists()


@pytest.mark.thorough
def test_a_fixed_value_is_used_as_entered(search: Search) -> None:
    services.change_search(search, by=search.owner, add=["random_page_cost 1 to 4"], fix={"random_page_cost": "1.1"})
    finish(search)

    new = search.trials.filter(number__gt=3)
    assert {each.values["random_page_cost"] for each in new} == {1.1}
    assert confirmed_levels(search)
    assert all(
        confirmed_level["set"]["settings.postgresql.random_page_cost"] == "1.1"
        for confirmed_level in confirmed_levels(search)
    )


@pytest.mark.thorough
def test_trials_from_before_a_fixed_setting_was_added_are_not_confirmed(search: Search) -> None:
    services.change_search(search, by=search.owner, add=["random_page_cost 1 to 4"], fix={"random_page_cost": "2"})
    finish(search, lambda values: (1200.0 if "random_page_cost" in values else 1500.0) if values else 1000.0)

    assert search.rounds.exclude(number=1).exists()
    assert all(
        "settings.postgresql.random_page_cost" in confirmed_level["set"] for confirmed_level in confirmed_levels(search)
    )


def confirmed_levels(search: Search) -> list[dict[str, Any]]:
    """The levels of the confirmation beside the default."""
    levels: list[dict[str, Any]] = search.rounds.get(kind=Round.Kind.CONFIRMATION).campaign.factors[0]["levels"]
    return levels[1:]


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({}, "add", "nothing changes"),
        ({"add": ["work_mem 1MB to 2MB"]}, "space.3", "appears twice"),
        ({"add": ["fsync on, off"]}, "space.3", "risks data"),
        ({"fix": {"geqo": "on"}}, "fix", "geqo is not varied"),
        ({"fix": {"work_mem": "4GB"}}, "fix", "not in the range"),
        ({"fix": {"work_mem": "much"}}, "fix", "is not a number"),
        ({"fix": {"jit": "maybe"}}, "fix", "is not a choice"),
        ({"free": ["jit"]}, "free", "jit is not fixed"),
        ({"fix": {"jit": "on", "work_mem": "1MB"}}, "fix", "no setting is left"),
    ],
)
def test_an_invalid_change_is_refused_and_changes_nothing(
    search: Search, change: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        services.change_search(search, by=search.owner, **change)

    assert caught.value.subject == field
    search.refresh_from_db()
    assert (len(search.space), search.fixed) == (2, {})


def test_a_stopped_search_cannot_be_changed(search: Search) -> None:
    services.stop_search(search, by=search.owner)

    with pytest.raises(PlanError, match="can be changed"):
        services.change_search(search, by=search.owner, fix={"jit": "on"})


def test_page_and_api_change_settings_and_the_audit_log_has_both_states(search: Search) -> None:
    client = browser(search.owner)

    client.post(
        reverse("searches_action", args=[search.pk, "change"]), {"setting": "work_mem", "value": "16MB"}, "multipart"
    )
    body = client.post(f"/api/v1/searches/{search.pk}/change/", {"add": ["geqo on, off"]}, "json").json()
    page = client.get(reverse("searches_detail", args=[search.pk])).content.decode()

    assert (body["fixed"], body["space"][-1]) == ({"work_mem": 16384}, "geqo on, off")
    assert "fixed at 16MB" in page
    newest = AuditEntry.objects.filter(action="search.change").latest("pk")
    assert newest.before["space"] != newest.after["space"]
    assert search.owner.role == Role.OPERATOR


def test_the_history_of_a_campaign_has_words_for_each_action_on_its_search() -> None:
    source = Path(services.__file__).read_text()

    actions = set(re.findall(r'"(search\.\w+)", \w+,[^\n]*_audited', source))

    assert len(actions) >= 5
    assert actions <= set(history.ACTIONS)
