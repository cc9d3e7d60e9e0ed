"""The pages of a campaign's list of runs, forwards and backwards, at any length."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.results.runs import page_content
from tests.rows.factories import make_campaign, make_host

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign(admin: User, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """Ten runs, of which a page shows four."""
    monkeypatch.setattr(page_content, "RUNS_SHOWN", 4)
    return make_campaign(Campaign.State.FINISHED, by=admin, repetitions=5)


def places(shown: page_content.RunsPage) -> list[int]:
    return [run.position for run in shown.runs]


def test_pages_go_forwards_to_the_end(campaign: Campaign) -> None:
    first = page_content.runs_of(campaign)
    second = page_content.runs_of(campaign, after=first.after or 0)
    last = page_content.runs_of(campaign, after=second.after or 0)

    assert [places(each) for each in (first, second, last)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert (first.before, last.after, first.all) == (None, None, False)


def test_pages_go_backwards_to_the_beginning(campaign: Campaign) -> None:
    last = page_content.runs_of(campaign, after=7)
    second = page_content.runs_of(campaign, before=last.before)
    first = page_content.runs_of(campaign, before=second.before)

    assert [places(each) for each in (second, first)] == [[4, 5, 6, 7], [0, 1, 2, 3]]
    assert (first.before, second.after) == (None, 7)


def test_a_deleted_run_does_not_move_other_runs_between_pages(campaign: Campaign) -> None:
    first = page_content.runs_of(campaign)
    campaign.runs.filter(position__in=(3, 5)).delete()

    assert places(page_content.runs_of(campaign, after=first.after or 0)) == [4, 6, 7, 8]


def test_a_page_beyond_the_end_is_empty_and_leads_back(campaign: Campaign) -> None:
    shown = page_content.runs_of(campaign, after=99)

    assert (places(shown), shown.after) == ([], None)
    assert places(page_content.runs_of(campaign, before=shown.before)) == [6, 7, 8, 9]


def test_only_the_figures_of_the_runs_that_are_shown_are_read(
    campaign: Campaign, django_assert_num_queries: object
) -> None:
    fresh = Campaign.objects.select_related("workload").get(pk=campaign.pk)

    with django_assert_num_queries(2):  # type: ignore[operator]
        shown = page_content.runs_of(fresh)

    assert [getattr(run, "value") > 0 for run in shown.runs] == [True] * 4  # noqa: B009 - set for the page


def test_the_page_links_to_the_previous_and_the_next_page(client: Client, admin: User, campaign: Campaign) -> None:
    client.force_login(admin)
    address = reverse("campaign_detail", args=[campaign.pk])

    html = client.get(f"{address}?after=3").content.decode()

    assert re.findall(r'id="run-(\d+)"', html) == ["4", "5", "6", "7"]
    assert 'href="?before=4#runs-title" rel="prev" data-page="previous"' in html
    assert 'href="?after=7#runs-title" rel="next" data-page="next"' in html
    assert "5 to 8 of 10" in html


def test_the_links_keep_the_host(client: Client, admin: User, campaign: Campaign) -> None:
    client.force_login(admin)
    address = reverse("campaign_detail", args=[campaign.pk])

    html = client.get(f"{address}?host={campaign.host_id}").content.decode()

    assert f'href="?host={campaign.host_id}&amp;after=3#runs-title"' in html
    assert page_content.runs_of(campaign, make_host().pk).runs == []


@pytest.mark.parametrize("query", ["after=x", "before=-1", "after=99999999999999999999", "after=1.5"])
def test_an_invalid_page_position_is_not_found(client: Client, admin: User, campaign: Campaign, query: str) -> None:
    client.force_login(admin)

    answer = client.get(f"{reverse('campaign_detail', args=[campaign.pk])}?{query}")

    assert answer.status_code == 404
