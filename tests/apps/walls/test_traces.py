"""What members of a private team do with objects of no team does not show the private objects to other users."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Channel, Delivery, Role, Team, User
from apps.accounts.notices.notify import notify
from apps.campaigns import lifecycle
from apps.campaigns.models import Campaign
from apps.decisions import services as decisions
from apps.decisions.models import Decision, Standing
from apps.hosts.models import Host
from tests.apps.walls.conftest import Private
from tests.rows.factories import browser, make_campaign, make_host, make_user, script


@pytest.fixture
def public(private: Private) -> Campaign:
    """A finished campaign of no team."""
    return make_campaign(Campaign.State.FINISHED, by=private.member, host=make_host())


def decide(campaign: Campaign, by: User, title: str, *, hosts: list[Host] | None = None) -> Decision:
    written = decisions.write_decision(by=by, campaign=campaign, title=title, decision="d", hosts=hosts)
    return decisions.accept_decision(written, by=by)


def page(user: User, name: str, *keys: object) -> str:
    answer = browser(user).get(reverse(name, args=keys))
    assert answer.status_code == 200
    return answer.content.decode()


def test_mail_to_another_user_is_not_listed_by_the_api(private: Private) -> None:
    channel = Channel.objects.create(
        name="member", owner=private.member, kind="mail", address="a@example.org", events=["host.unfit"]
    )
    notify("host.unfit", "vault-01 is unfit", {"text": "vault-01"}, about=[private.host])
    sent = Delivery.objects.get(channel=channel)

    for user, subjects in ((private.member, [sent.subject]), (private.stranger, [])):
        listed = browser(user).get(reverse("api:delivery-list")).json()
        assert [row["subject"] for row in listed["results"]] == subjects
    answer = browser(private.stranger).get(reverse("api:delivery-detail", args=[sent.pk]))
    assert answer.status_code == 404
    other_team = script(private.member, team=Team.objects.create(name="storage"))
    assert other_team.get(reverse("api:delivery-list")).json()["results"] == []


def test_webhook_deliveries_are_listed_for_all_users(private: Private) -> None:
    Channel.objects.create(
        name="room",
        owner=make_user(Role.ADMIN),
        kind="webhook",
        address="https://h.example.org/",
        events=["host.unfit"],
    )

    notify("host.unfit", "db is unfit", {}, about=[make_host()])

    listed = browser(private.stranger).get(reverse("api:delivery-list")).json()
    assert [row["subject"] for row in listed["results"]] == ["db is unfit"]


def test_the_history_of_a_campaign_does_not_name_private_clones(private: Private, public: Campaign) -> None:
    lifecycle.clone_campaign(public, by=private.member, host=private.host, name="secret tuning")
    lifecycle.clone_campaign(public, by=private.member, name="open tuning")

    for user, is_shown in ((private.member, True), (private.stranger, False)):
        content = page(user, "campaign_detail", public.pk)
        assert "into open tuning" in content
        assert ("secret tuning" in content) == is_shown


@pytest.mark.parametrize("was_private", [True, False])
def test_the_history_of_a_decision_does_not_name_a_private_successor(
    private: Private, public: Campaign, was_private: bool
) -> None:
    Team.objects.filter(pk=private.team.pk).update(private=was_private)
    first = decide(public, private.member, "Two cpus")
    decisions.write_decision(
        by=private.member, campaign=private.campaign, title="Secret cpus", decision="d", supersedes=first
    )
    Team.objects.filter(pk=private.team.pk).update(private=True)

    for user, is_shown in ((private.member, True), (private.stranger, False)):
        events = browser(user).get(reverse("api:decision-events", args=[first.pk])).content.decode()
        assert ("Secret cpus" in events) == is_shown
        for name, keys in (("decision_detail", [first.pk]), ("timeline", [])):
            content = page(user, name, *keys)
            assert "Two cpus" in content
            assert ("Secret cpus" in content) == is_shown


def test_a_change_of_a_private_host_makes_no_task_for_others(private: Private, public: Campaign) -> None:
    decision = decide(public, private.member, "Two cpus", hosts=[public.host, private.host])
    Standing.objects.filter(decision=decision, host=private.host).update(stale_since=timezone.now())

    for user, is_shown in ((private.member, True), (private.stranger, False)):
        assert ("it may no longer hold" in page(user, "home")) == is_shown


def test_a_private_confirming_campaign_is_not_named(private: Private, public: Campaign) -> None:
    decision = decide(public, private.member, "Two cpus")
    draft = make_campaign(by=private.member, host=private.host, name="secret tuning")
    decision.standings.update(stale_since=timezone.now(), campaign=draft)

    for user, is_shown in ((private.member, True), (private.stranger, False)):
        assert ("secret tuning" in page(user, "decision_detail", decision.pk)) == is_shown
