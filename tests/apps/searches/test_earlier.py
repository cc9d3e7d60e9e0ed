"""Trials of earlier searches from which a new one learns."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from apps.campaigns.models import Campaign
from apps.searches.models import Search
from tests.rows.factories import browser, make_campaign, make_host, make_search
from tests.rows.searched import BEST_KB, advance, finish

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign() -> Campaign:
    return make_campaign()


@pytest.fixture
def ended(campaign: Campaign) -> Search:
    return finish(make_search(campaign, budget_runs=60, blocks=1))


def test_a_warm_start_learns_from_trials_of_the_same_campaign_and_proposes_near_the_best(ended: Search) -> None:
    search = make_search(ended.campaign, by=ended.owner, name="again", warm_start=True, candidates=6, seed=7)

    advance(search)

    assert len(search.earlier) == ended.trials.exclude(state="asked").count() > 5
    values = [each.values for each in search.trials.all()]
    assert sum(each["jit"] == "off" and BEST_KB / 16 < each["work_mem"] < BEST_KB * 16 for each in values) >= 4
    page = browser(ended.owner).get(reverse("searches_detail", args=[search.pk])).content.decode()
    assert "trials of earlier searches. They are not confirmed." in page


@pytest.mark.parametrize(
    "change",
    [
        {"space": ["jit on, off"]},
        {"space": ["work_mem 2GB to 3GB log", "jit on, off"]},
        {"warm_start": False},
    ],
)
def test_trials_outside_of_the_space_are_not_used_nor_any_without_a_request(
    ended: Search, change: dict[str, Any]
) -> None:
    search = make_search(ended.campaign, by=ended.owner, name="again", **{"warm_start": True} | change)

    assert search.earlier == []


def test_trials_of_another_host_or_of_a_running_search_are_not_used(ended: Search) -> None:
    elsewhere = make_search(make_campaign(host=make_host("other")), by=ended.owner, name="other", warm_start=True)
    Search.objects.filter(pk=ended.pk).update(state=Search.State.RUNNING)
    beside = make_search(ended.campaign, by=ended.owner, name="beside", warm_start=True)

    assert elsewhere.earlier == beside.earlier == []
