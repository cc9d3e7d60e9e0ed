"""Which settings of a search matter, by its trials."""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.core.cache import cache
from django.urls import reverse

from apps.accounts.models import Role
from apps.searches import importance
from apps.searches.models import Search
from tests.rows.factories import browser, make_search, make_user
from tests.rows.searched import finish

pytestmark = pytest.mark.django_db
SPACE = ["work_mem 64kB to 1GB log", "random_page_cost 1 to 4", "jit on, off"]


def tps(values: dict[str, Any]) -> float:
    """Of work_mem much, of jit less, of random_page_cost nothing."""
    if not values:
        return 1000.0
    return 1000.0 * values["work_mem"] ** 0.1 * (0.8 if values["jit"] == "on" else 1.0)


def long_search(figures: Any = tps) -> Search:
    sizes = {"candidates": 8, "blocks": 1, "finalists": 1, "confirmation_blocks": 3}
    return finish(make_search(space=SPACE, budget_runs=60, **sizes), figures)


def test_too_few_trials_give_a_reason_instead_of_a_list() -> None:
    search = make_search()

    empty = importance.importance_of(search)

    assert empty.reason == "Not enough trials: 0 have a result; 2 settings need 15."
    assert (empty.settings, empty.predicted) == ([], None)


@pytest.mark.thorough
def test_the_setting_on_which_results_depend_most_is_first() -> None:
    answer = importance.importance_of(long_search())

    assert answer.reason == ""
    assert [setting.name for setting in answer.settings] == ["work_mem", "jit", "random_page_cost"]
    first, second, third = answer.settings
    assert all(setting.low <= setting.percent <= setting.high for setting in answer.settings)
    assert first.low > third.high and second.low > third.high
    assert answer.predicted and answer.predicted > 80


@pytest.mark.thorough
def test_settings_without_effect_are_not_ranked() -> None:
    noise = iter(range(10_000))

    answer = importance.importance_of(long_search(lambda values: 1000.0 + 50 * math.sin(12.9898 * next(noise) ** 2)))

    assert answer.reason.startswith("Not resolved: in ")
    assert answer.settings == []


@pytest.mark.thorough
def test_an_answer_is_computed_once_until_a_trial_has_new_results(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    search, calls = long_search(), []
    compute = importance._computed
    monkeypatch.setattr(importance, "_computed", lambda *given: calls.append(1) or compute(*given))

    first, second = importance.importance_of(search), importance.importance_of(search)
    search.trials.filter(number=1).update(log_ratio=0.5)
    importance.importance_of(search)

    assert first == second
    assert len(calls) == 2


@pytest.mark.thorough
def test_page_and_api_show_the_shares_with_their_intervals() -> None:
    search, client = long_search(), browser(make_user(Role.VIEWER))

    part = client.get(reverse("searches_importance", args=[search.pk])).content.decode()
    body = client.get(f"/api/v1/searches/{search.pk}/importance/").json()
    chart = client.get(reverse("searches_figure", args=[search.pk, "importance"])).json()

    assert body["settings"][0]["name"] == "work_mem" and body["reason"] == ""
    assert chart["data"][0]["y"] == [setting["name"] for setting in reversed(body["settings"])]
    assert part.count("<tr>") == 1 + len(SPACE)


def test_the_page_says_why_there_is_no_importance_yet() -> None:
    search = make_search()

    part = browser(make_user()).get(reverse("searches_importance", args=[search.pk])).content.decode()

    assert "Not enough trials" in part and "importance-chart" not in part
