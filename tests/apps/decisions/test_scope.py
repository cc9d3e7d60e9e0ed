"""The scope of a decision, who may accept it, its expiry, and whether its evidence is unchanged."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.decisions import periodic, services
from apps.decisions.evidence import replay
from apps.decisions.models import Decision, Standing
from apps.hosts.services import change_host, remove_host
from common.errors import PlanError
from tests.apps.decisions.test_decide import write
from tests.rows.factories import browser, make_campaign, make_host

Status = Decision.Status


@pytest.fixture
def campaign(db: None) -> Campaign:
    return make_campaign(Campaign.State.FINISHED)


def test_a_label_adds_every_host_that_has_it(tuner: User, admin: User, campaign: Campaign) -> None:
    written = write(tuner, campaign, labels=["oltp"])
    other, third = make_host("other"), make_host("third")
    assert list(written.scope) == [campaign.host]

    change_host(other, by=admin, labels=["oltp", "rack=b2"])

    assert set(written.scope) == {campaign.host, other}
    assert list(Decision.objects.about(other)) == [written]
    assert not Decision.objects.about(third).exists()


def test_a_host_that_is_in_a_scope_by_its_label_alone_can_be_removed(
    tuner: User, admin: User, campaign: Campaign
) -> None:
    written = write(tuner, campaign, labels=["oltp"])
    other = make_host("other")
    change_host(other, by=admin, labels=["oltp"])
    Standing.objects.create(decision=written, host=other, conditions={})

    with pytest.raises(PlanError, match="campaigns, decisions"):
        remove_host(campaign.host, by=admin)
    remove_host(other, by=admin)

    assert list(written.scope) == [campaign.host]


def test_a_decision_about_no_host_is_refused(tuner: User, campaign: Campaign) -> None:
    with pytest.raises(PlanError, match="needs at least one host"):
        write(tuner, campaign, hosts=[])

    assert list(write(tuner, campaign, hosts=[], labels=["oltp"]).scope) == []


@pytest.mark.parametrize(
    ("scope", "field", "message"),
    [
        (
            {"postgresql_from": 14, "postgresql_to": 17},
            "postgresql_from",
            "the evidence comes from 18.6 on .*outside 14",
        ),
        ({"kernel_to": "5.15"}, "kernel_from", "the evidence comes from 6.1.0 on .*outside up to 5.15"),
        ({"postgresql_from": 18, "postgresql_to": 17}, "postgresql_from", "18 is after 17"),
    ],
)
def test_a_scope_that_was_not_measured_is_refused(
    tuner: User, campaign: Campaign, scope: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        write(tuner, campaign, **scope)

    assert refused.value.subject == field


def test_the_chosen_level_gives_the_decided_settings(tuner: User, campaign: Campaign) -> None:
    assert write(tuner, campaign, level="2 cpus").settings == {"cpu_affinity": {"server": "0,1"}}

    with pytest.raises(PlanError, match=r"'3 cpus' was not run .one of 1 cpu; 2 cpus"):
        write(tuner, campaign, level="3 cpus")


def test_the_author_accepts_nothing_where_the_team_asks_for_two(
    tuner: User, admin: User, campaign: Campaign, settings: Any
) -> None:
    settings.DECISIONS_BY_TWO = True
    written = write(tuner, campaign)

    with pytest.raises(PlanError, match=r"wrote this decision .another user"):
        services.accept_decision(written, by=tuner)

    assert services.accept_decision(written, by=admin).accepted_by == admin


def test_a_superseded_decision_names_its_successor(tuner: User, campaign: Campaign) -> None:
    first = write(tuner, campaign)

    second = write(tuner, campaign, title="Four cpus", supersedes=first)

    first.refresh_from_db()
    assert (first.status, first.superseded_by) == (Status.SUPERSEDED, second)
    assert [(event.kind, event.text, event.by) for event in first.events.all()] == [
        ("superseded", "by “Four cpus”", tuner)
    ]


def test_a_decision_expires_on_its_day_and_is_renewed(tuner: User, admin: User, campaign: Campaign) -> None:
    today = timezone.localdate()
    written = services.accept_decision(write(tuner, campaign), by=tuner)
    Decision.objects.update(review_on=today)

    periodic.tend()
    periodic.tend()

    written.refresh_from_db()
    assert written.status == Status.EXPIRED
    services.renew_decision(written, today + timedelta(days=30), by=admin)
    assert (written.status, written.review_on) == (Status.ACCEPTED, today + timedelta(days=30))
    assert [(event.kind, event.by) for event in written.events.all()] == [
        *(("accepted", tuner), ("expired", None), ("renewed", admin)),
    ]


def test_only_accepted_or_expired_decisions_are_renewed(tuner: User, campaign: Campaign) -> None:
    with pytest.raises(PlanError, match="only an accepted or expired"):
        services.renew_decision(write(tuner, campaign), None, by=tuner)


def test_dissent_is_distinguished_from_other_comments(tuner: User, campaign: Campaign, client: Client) -> None:
    written = write(tuner, campaign)
    client.force_login(tuner)
    url = reverse("decision_action", args=[written.pk, "comment"])

    client.post(url, {"text": "not under load", "dissent": "on"})

    assert [comment.dissent for comment in written.comments.all()] == [True]
    assert "dissent" in client.get(reverse("decision_detail", args=[written.pk])).content.decode()


def test_frozen_evidence_says_the_same_when_it_is_judged_again(tuner: User) -> None:
    evidence = write(tuner, make_campaign(Campaign.State.FINISHED, repetitions=5)).evidence

    (row,) = replay.replay(evidence)

    assert (row.label, row.verdict, row.again, row.same) == ("2 cpus", "better", "better", True)
    assert replay.altered(evidence) == []


@pytest.mark.parametrize(
    "analysis",
    [
        {"interim_analysis": {"comparison": {"b": "2 cpus"}}},
        {"look": {"found": {"b": "2 cpus"}}},  # frozen by 0.2
    ],
)
def test_a_replay_leaves_out_the_level_of_a_stop_rule(tuner: User, analysis: dict[str, Any]) -> None:
    evidence = write(tuner, make_campaign(Campaign.State.FINISHED, repetitions=5)).evidence

    evidence["table"] |= analysis

    assert replay.replay(evidence) == []


def test_a_replay_detects_changed_evidence(tuner: User) -> None:
    evidence = write(tuner, make_campaign(Campaign.State.FINISHED, repetitions=5)).evidence
    changed = evidence["table"]["levels"][1]["points"][0]
    changed["value"] = 500.0

    (row,) = replay.replay(evidence)

    assert not row.same
    assert replay.altered(evidence) == [changed["run"]]


def test_both_doors_write_a_scope(tuner: User, campaign: Campaign, client: Client) -> None:
    scope = {"labels": ["ssd", "oltp"], "postgresql_from": 17, "kernel_to": "6.6", "level": "2 cpus"}
    body = {"campaign": str(campaign.pk), "title": "T", "decision": "D", "options": "One cpu", **scope}

    created = browser(tuner).post("/api/v1/decisions/", body).json()
    client.force_login(tuner)
    typed = {"title": "T", "decision": "D", "options": "One cpu", **scope, "labels": "ssd, oltp"}
    client.post(f"{reverse('decision_new')}?campaign={campaign.pk}", typed)

    by_api, by_page = Decision.objects.order_by("pk")
    names = ("labels", "postgresql_from", "kernel_to", "level", "settings", "options")
    assert {name: getattr(by_api, name) for name in names} == {name: getattr(by_page, name) for name in names}
    assert created["labels"] == ["oltp", "ssd"]


def test_the_api_replays_renews_and_lists_the_history(tuner: User, campaign: Campaign) -> None:
    written, client = write(tuner, campaign), browser(tuner)
    path = f"/api/v1/decisions/{written.pk}/"
    client.post(f"{path}accept/")

    assert client.post(f"{path}renew/", {"review_on": "2001-01-01"}).json()["field"] == "review_on"
    assert client.post(f"{path}renew/", {"review_on": "2999-01-01"}).json()["review_on"] == "2999-01-01"
    assert client.get(f"{path}replay/").json()["intact"] is True
    assert [result["kind"] for result in client.get(f"{path}events/").json()["results"]] == ["accepted", "renewed"]


def test_a_label_is_one_word_and_both_doors_write_it(admin: User, client: Client) -> None:
    host = make_host()
    client.force_login(admin)

    client.post(reverse("host_action", args=[host.name, "labels"]), {"labels": "OLTP, rack=b2"})
    refused = browser(admin).patch(f"/api/v1/hosts/{host.pk}/", {"labels": ["two words"]})

    host.refresh_from_db()
    assert host.labels == ["oltp", "rack=b2"]
    assert (refused.status_code, refused.json()["field"]) == (400, "labels")
    assert [result["name"] for result in browser(admin).get("/api/v1/hosts/?label=oltp").json()["results"]] == [
        host.name
    ]
