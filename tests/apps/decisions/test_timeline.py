"""The team's timeline: filters, pagination, and a feed with a secret address."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.decisions import services
from apps.decisions.models import Decision, Event, FeedToken
from apps.decisions.timeline import entries
from apps.decisions.timeline.entries import Criteria
from common.errors import PlanError
from tests.rows.factories import browser, make_campaign, make_host

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def decision(tuner: User, admin: User) -> Decision:
    """On a campaign, accepted by another person."""
    campaign = make_campaign(Campaign.State.FINISHED, by=tuner, host=make_host("bench"), name="measured")
    written = services.write_decision(by=tuner, campaign=campaign, title="T", decision="Two cpus", level="2 cpus")
    return services.accept_decision(written, by=admin)


def listed(**filters: Any) -> list[tuple[str, str]]:
    return [(entry.kind, entry.title) for entry in entries.timeline(Criteria(**filters)).entries]


ALL = [("accepted", "T was accepted"), ("decision", "T"), ("campaign", "measured")]


def test_the_timeline_has_campaigns_decisions_and_their_events(decision: Decision) -> None:
    assert listed() == ALL


def test_the_page_says_once_that_a_decision_was_accepted(decision: Decision, tuner: User, client: Client) -> None:
    client.force_login(tuner)

    rows = client.get(reverse("timeline")).content.decode().split("<li data-row>")[1:]

    assert [sum(state in row for row in rows) for state in ("</span> accepted", "</span> proposed")] == [1, 1]


def test_each_filter_keeps_the_matching_entries(decision: Decision, tuner: User, admin: User) -> None:
    tomorrow = timezone.localdate() + timedelta(days=1)

    assert listed(host=decision.campaign.host) == ALL
    assert listed(host=make_host("other")) == []
    assert listed(setting="cpu_affinity") == listed(setting="cpu_affinity.server") == ALL
    assert listed(setting="sysctl") == []
    assert listed(person=tuner.username) == ALL[1:]
    assert listed(person=admin.username) == ALL[:1]
    assert listed(text="two cpus") == [("decision", "T")]
    assert listed(since=tomorrow) == listed(until=tomorrow - timedelta(days=2)) == []
    assert listed(since=tomorrow - timedelta(days=2), until=tomorrow) == ALL


def test_pages_are_neither_torn_nor_repeated_where_all_happened_at_once(decision: Decision) -> None:
    for _ in range(5):
        Event.objects.create(decision=decision, kind=Event.Kind.RENEWED)
    now = timezone.now()
    Event.objects.update(at=now)
    Decision.objects.update(created_at=now)
    Campaign.objects.update(ended_at=now)

    places, cursor = [], ""
    while True:
        page = entries.timeline(Criteria(), cursor, size=3)
        places += [entry.place for entry in page.entries]
        cursor = page.older
        if not cursor:
            break

    assert len(places) == len(set(places)) == 8
    assert places == sorted(places, reverse=True)


@pytest.mark.parametrize("cursor", ["x", "2026-01-01~1~2", "2026-01-01T00:00:00+00:00~7~1"])
def test_an_invalid_cursor_is_refused(db: None, cursor: str) -> None:
    with pytest.raises(PlanError, match="not a cursor of the timeline"):
        entries.timeline(Criteria(), cursor)


def test_the_api_has_the_same_entries_and_names_a_wrong_field(decision: Decision, tuner: User) -> None:
    client = browser(tuner)

    answer = client.get("/api/v1/timeline/?setting=cpu_affinity").json()

    assert [(entry["kind"], entry["title"]) for entry in answer["entries"]] == ALL
    assert answer["entries"][0]["path"] == f"/decisions/{decision.pk}/"
    assert client.get("/api/v1/timeline/?since=soon").json()["field"] == "since"
    assert client.get("/api/v1/timeline/?cursor=x").json()["field"] == "cursor"


def test_a_feed_is_read_without_a_login_by_its_address_alone(decision: Decision, tuner: User, client: Client) -> None:
    address = browser(tuner).post("/api/v1/feed/").json()["address"]

    answer = client.get(address, {"setting": "cpu_affinity"})

    assert answer.headers["Content-Type"].startswith("application/atom+xml")
    entries = ElementTree.fromstring(answer.content).findall(f"{ATOM}entry")
    assert [entry.findtext(f"{ATOM}title") for entry in entries] == [title for _, title in ALL]
    assert len({entry.findtext(f"{ATOM}id") for entry in entries}) == 3
    assert FeedToken.objects.get().digest not in address


def test_an_address_stops_working_with_the_next_one_its_owner_or_by_wish(
    decision: Decision, tuner: User, client: Client
) -> None:
    first = browser(tuner).post("/api/v1/feed/").json()["address"]
    second = browser(tuner).post("/api/v1/feed/").json()["address"]
    assert (client.get(first).status_code, client.get(second).status_code) == (404, 200)

    User.objects.filter(pk=tuner.pk).update(is_active=False)
    assert client.get(second).status_code == 404
    User.objects.filter(pk=tuner.pk).update(is_active=True)
    browser(tuner).delete("/api/v1/feed/")

    assert client.get(second).status_code == 404


def test_a_page_shows_the_address_once(tuner: User, client: Client) -> None:
    client.force_login(tuner)

    page = client.post(reverse("feed_action", args=["renew"])).content.decode()

    assert "timeline.atom" in page
    assert "timeline.atom" not in client.get(reverse("timeline")).content.decode()


def test_a_campaign_with_failed_runs_does_not_look_like_a_success(tuner: User, client: Client) -> None:
    campaign = make_campaign(Campaign.State.FINISHED, by=tuner, host=make_host("bench"), name="half failed")
    campaign.runs.filter(position=0).update(outcome=Run.Outcome.FAILED)
    client.force_login(tuner)

    assert "finished, 1 failed" in client.get(reverse("timeline")).content.decode()
