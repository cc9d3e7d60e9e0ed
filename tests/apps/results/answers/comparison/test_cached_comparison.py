"""The page and the charts of levels of one campaign are computed once, and again when its runs have changed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Team, User
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.results.answers.comparison.compare import read
from apps.results.pages import compare_views
from tests.rows import split
from tests.rows.factories import end_run

pytestmark = pytest.mark.django_db

PAGE = reverse("compare")
CHARTS = [reverse("compare_figure", args=[name]) for name in compare_views.FIGURES]


@pytest.fixture
def campaign(admin: User) -> Campaign:
    return split.finished(admin, split.host())


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The queries for which a comparison was computed."""
    queries = list[Any]()
    monkeypatch.setattr(compare_views, "read", lambda query: queries.append(query) or read(query))
    return queries


def query(campaign: Campaign, **more: str) -> str:
    sides = [f"level:{campaign.pk}:8GB, off", f"level:{campaign.pk}:8GB, on"]
    return urlencode({"of": sides, **more}, doseq=True)


def get(user: User, url: str) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("url", [PAGE, *CHARTS])
def test_it_is_computed_once(viewer: User, campaign: Campaign, computed: list[Any], url: str) -> None:
    first, second = (get(viewer, f"{url}?{query(campaign)}") for _ in range(2))

    assert len(computed) == 1
    assert _without_nonces(first) == _without_nonces(second)


def test_another_choice_is_another_comparison(viewer: User, campaign: Campaign, computed: list[Any]) -> None:
    other = read(QueryDict(query(campaign))).figures[-1]
    choices: list[dict[str, str]] = [{}, {"figure": other}, {"delta": "10"}, {"view": "table"}]

    pages = {get(viewer, f"{PAGE}?{query(campaign, **choice)}") for choice in choices}

    assert len(pages) == len(computed) == len(choices)


@pytest.mark.parametrize("url", [PAGE, CHARTS[0]])
def test_a_run_that_changes_is_in_it(viewer: User, campaign: Campaign, computed: list[Any], url: str) -> None:
    run = campaign.runs.filter(cell={"shared_buffers": "8GB", "huge pages": "on"}).first()
    assert run
    before = get(viewer, f"{url}?{query(campaign)}")

    end_run(run, Run.Outcome.FAILED)

    assert _without_nonces(get(viewer, f"{url}?{query(campaign)}")) != _without_nonces(before)


def test_a_renamed_campaign_has_its_new_name_in_it(viewer: User, campaign: Campaign) -> None:
    get(viewer, f"{PAGE}?{query(campaign, view='table')}")

    Campaign.objects.filter(pk=campaign.pk).update(name="after the upgrade")

    assert "of after the upgrade" in get(viewer, f"{PAGE}?{query(campaign, view='table')}")


def test_only_those_who_may_save_a_view_are_offered_it(viewer: User, operator: User, campaign: Campaign) -> None:
    url = f"{PAGE}?{query(campaign)}"

    pages = [get(user, url) for user in (viewer, operator, viewer, operator)]

    assert ["data-pin" in each for each in pages] == [False, True, False, True]


def test_a_stranger_does_not_see_what_a_member_of_a_private_team_has_cached(
    admin: User, viewer: User, campaign: Campaign
) -> None:
    team = Team.objects.create(name="secret", private=True)
    Host.objects.filter(pk=campaign.host_id).update(team=team)
    url = f"{PAGE}?{query(campaign)}"
    assert "8GB" in get(admin, url)
    client = Client()
    client.force_login(viewer)

    answer = client.get(url)

    assert answer.status_code == 422
    assert "does not exist" in answer.content.decode()


def _without_nonces(page: str) -> str:
    """Without what differs between any two answers."""
    return "\n".join(line for line in page.splitlines() if "nonce" not in line and "csrf" not in line)
