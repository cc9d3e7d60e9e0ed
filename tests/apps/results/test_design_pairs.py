"""Which facts of a campaign's design its page shows, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.campaigns.models import Campaign
from apps.results.pages.design_pairs import design_pairs
from apps.web.pairs import Pair, code
from tests.rows.factories import make_campaign, make_host, make_schedule, make_user


def pairs_of(campaign: Campaign, by: User) -> dict[str, Pair]:
    return {each.name: each for each in design_pairs(campaign, None, [], by)}


def text(pair: Pair) -> str:
    return "".join(str(part.text) for part in pair.parts)


@pytest.mark.parametrize(
    ("target", "words", "where"),
    [
        ({"data_dir": "/srv/17"}, "the existing cluster in ", "/srv/17"),
        ({"remote": "orders"}, "the remote server ", "orders"),
        ({"bin_dir": "/usr/lib/postgresql/17/bin"}, "a private cluster of ", "/usr/lib/postgresql/17/bin"),
    ],
)
def test_the_design_says_where_postgresql_is(db: None, target: dict[str, str], words: str, where: str) -> None:
    campaign = make_campaign()
    campaign.target = target

    first, second = pairs_of(campaign, campaign.created_by)["PostgreSQL"].parts

    assert (first.text, second) == (words, code(where))


def test_only_an_operator_of_an_open_campaign_may_change_its_priority(db: None) -> None:
    campaign, viewer = make_campaign(), make_user(Role.VIEWER)

    operators, viewers = (pairs_of(campaign, by)["Priority"] for by in (campaign.created_by, viewer))
    campaign.ended_at = campaign.started_at = timezone.now()
    ended = pairs_of(campaign, campaign.created_by)

    assert (operators.template, text(operators)) == ("results/campaign/_priority.html", "")
    assert (viewers.template, text(viewers)) == ("", "0")
    assert "Priority" not in ended and "Took" in ended


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("comparison", {"Repetitions": "3, randomised blocks, seed 1", "Profile": "none: no settings changed"}),
        ("imported", {"Repetitions": "up to 3", "Profile": "unknown", "Measured": "when is unknown"}),
    ],
)
def test_an_imported_design_has_no_order_and_no_profile(db: None, kind: str, shown: dict[str, Any]) -> None:
    campaign = make_campaign()
    campaign.kind = kind

    pairs = pairs_of(campaign, campaign.created_by)

    assert {name: text(pairs[name]) for name in shown} == shown


def test_a_schedule_that_repeats_the_campaign_is_linked(db: None) -> None:
    schedule = make_schedule(make_campaign(host=make_host()))

    repeats = pairs_of(schedule.campaign, schedule.owner)["Repeats"]

    assert text(repeats) == f"{schedule.name}: {schedule.when} UTC"
    assert repeats.parts[0].href == f"/schedules/{schedule.pk}/"


def test_a_design_that_is_not_shown_is_not_read(db: None, django_assert_num_queries: Any) -> None:
    campaign = Campaign.objects.get(pk=make_campaign().pk)

    with django_assert_num_queries(0):
        design_pairs(campaign, None, [], User())
