"""A decision becomes stale when a host of its scope changes, and a campaign confirms or contradicts it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Channel, Team, User
from apps.campaigns import services
from apps.campaigns.execution import campaign_end
from apps.campaigns.models import Campaign
from apps.decisions import periodic
from apps.decisions import services as decisions
from apps.decisions.evidence import repetitions_needed
from apps.decisions.models import Decision
from apps.decisions.validity import confirmation
from apps.hosts import contact
from apps.hosts.models import Host
from apps.hosts.services import change_host
from common.errors import PlanError
from tests.rows.factories import FACTS, browser, end_run, make_campaign, make_host

ONE_CPU, TWO_CPUS = 1000.0, 1900.0
Status = Decision.Status


@pytest.fixture
def decision(admin: User) -> Decision:
    """Accepted: two cpus are better than one, measured with PostgreSQL 18.6 on Linux 6.1."""
    campaign = make_campaign(Campaign.State.FINISHED, by=admin, host=make_host("bench"), repetitions=5)
    fields = {"title": "Two cpus", "decision": "Give PostgreSQL two cpus", "level": "2 cpus"}
    return decisions.accept_decision(decisions.write_decision(by=admin, campaign=campaign, **fields), by=admin)


def upgrade(host: Host, version: str = "19.0", **facts: Any) -> None:
    """Change the host's facts, and run its check and the upkeep of decisions."""
    now = copy.deepcopy(FACTS) | facts
    now["postgresql"][0] |= {"version": version, "major": int(version.split(".")[0])}
    contact.record_facts(host, now)
    periodic.tend()


def carry_out(campaign: Campaign, by: User, other: float = TWO_CPUS) -> None:
    """Its runs have ended; the second level gave about `other` TPS."""
    services.start_campaign(campaign, by=by)
    for run in campaign.runs.order_by("position"):
        end_run(run, tps=(ONE_CPU if run.label.startswith("1") else other) + run.block)
    campaign_end.close_campaign(campaign.pk)
    periodic.tend()


def kinds(decision: Decision) -> list[str]:
    return [event.kind for event in decision.events.all()]


def test_an_upgrade_makes_a_decision_stale_once_and_notifies_subscribers(decision: Decision, admin: User) -> None:
    channel = Channel.objects.create(
        owner=admin, name="chat", kind="webhook", address="http://h/", events=["decision.stale"]
    )

    upgrade(decision.campaign.host)
    upgrade(decision.campaign.host, "19.1")

    (stale,) = confirmation.stale_standings(decision)
    assert stale.reasons_text == "PostgreSQL changed from 18.6 to 19.1."
    assert kinds(decision) == ["accepted", "stale"]
    (delivery,) = channel.deliveries.all()
    assert delivery.payload["host"] == "bench"
    (entry,) = AuditEntry.objects.filter(action="decision.stale")
    assert entry.after["reasons"][0]["fact"] == "postgresql"


@pytest.mark.parametrize("harmless", ["18.7", "18.6"])
def test_a_minor_release_or_another_disk_does_not_make_a_decision_stale(decision: Decision, harmless: str) -> None:
    upgrade(decision.campaign.host, harmless, block_devices=[{"name": "vdb", "kb": 1}])

    assert confirmation.stale_standings(decision) == []
    assert confirmation.offer(decision) is None


def test_a_decision_is_fresh_again_after_a_downgrade_to_its_version(decision: Decision) -> None:
    upgrade(decision.campaign.host)
    upgrade(decision.campaign.host, "18.6")

    assert confirmation.stale_standings(decision) == []
    assert kinds(decision) == ["accepted", "stale", "fresh"]


def test_decisions_that_are_not_accepted_are_not_checked(decision: Decision) -> None:
    Decision.objects.update(status=Status.REJECTED)

    upgrade(decision.campaign.host)

    assert not decision.standings.filter(stale_since__isnull=False).exists()


def test_a_host_that_a_label_adds_is_compared_with_the_measured_host(decision: Decision, admin: User) -> None:
    Decision.objects.update(labels=["oltp"])
    change_host(make_host("other", facts=FACTS | {"kernel": {"release": "6.12.41"}}), by=admin, labels=["oltp"])

    periodic.tend()

    decision.refresh_from_db()
    assert [(standing.host.name, standing.reasons_text) for standing in confirmation.stale_standings(decision)] == [
        ("other", "Linux changed from 6.1.0 to 6.12.41.")
    ]


def test_a_check_without_news_takes_four_queries(decision: Decision, django_assert_num_queries: Any) -> None:
    from apps.decisions.validity import staleness

    staleness.update_due_standings()

    with django_assert_num_queries(4):
        staleness.update_due_standings()


def test_the_banner_is_on_the_decision_the_host_the_timeline_and_home(
    decision: Decision, admin: User, client: Client
) -> None:
    upgrade(decision.campaign.host)
    client.force_login(admin)

    pages = {
        name: client.get(reverse(name, args=args)).content.decode()
        for name, args in {
            "decision_detail": [decision.pk],
            "decisions_on_host": ["bench"],
            "timeline": [],
            "home": [],
        }.items()
    }

    assert all("may no longer hold" in pages[name] for name in ("decision_detail", "decisions_on_host", "home"))
    assert "went stale" in pages["timeline"]
    assert "Plan confirming campaign" in pages["decision_detail"]


def test_one_click_plans_the_same_comparison_on_the_changed_host(
    decision: Decision, admin: User, client: Client
) -> None:
    upgrade(decision.campaign.host)
    client.force_login(admin)

    answer = client.post(reverse("decision_action", args=[decision.pk, "confirm"]))

    planned = Campaign.objects.get(name="Confirm: Two cpus")
    assert answer.headers["Location"] == reverse("campaign_detail", args=[planned.pk])
    original = decision.campaign
    assert (planned.state, planned.host, planned.cloned_from) == ("draft", original.host, original)
    assert (planned.factors, planned.workload, planned.repetitions) == (original.factors, original.workload, 5)
    assert planned.seed != original.seed
    with pytest.raises(PlanError, match="cannot be confirmed"):
        confirmation.confirm_decision(decision, by=admin)


def test_the_campaign_that_confirms_a_private_decision_does_not_show_its_title(decision: Decision, admin: User) -> None:
    """The campaign itself is visible: its hosts belong to no team."""
    decision.team = Team.objects.create(name="secrets", private=True)
    decision.save()
    upgrade(decision.campaign.host)

    planned = confirmation.confirm_decision(decision, by=admin)

    assert planned.name == f"Confirm: decision {decision.pk}"
    assert decision.title not in planned.question


def test_levels_added_after_the_decision_are_not_part_of_its_confirmation(decision: Decision, admin: User) -> None:
    decision.campaign.factors[0]["levels"].append({"label": "4 cpus", "set": {"settings.cpu_affinity.server": "0-3"}})
    decision.campaign.save()
    upgrade(decision.campaign.host)

    planned = confirmation.confirm_decision(Decision.objects.get(), by=admin)

    assert [level["label"] for level in planned.factors[0]["levels"]] == ["1 cpu", "2 cpus"]


def test_its_verdict_confirms_under_the_new_conditions(decision: Decision, admin: User) -> None:
    upgrade(decision.campaign.host)
    planned = confirmation.confirm_decision(decision, by=admin)

    carry_out(planned, admin)

    decision.refresh_from_db()
    assert (decision.status, confirmation.stale_standings(decision)) == (Status.ACCEPTED, [])
    assert decision.standings.get().conditions["postgresql"] == "19.0"
    assert kinds(decision) == ["accepted", "stale", "confirming", "confirmed"]
    last = decision.events.last()
    assert (last.by, last.campaign, last.host.name) == (None, planned, "bench")
    assert f"Requested by {admin}." in last.text


def test_its_verdict_contradicts(decision: Decision, admin: User) -> None:
    upgrade(decision.campaign.host)

    carry_out(confirmation.confirm_decision(decision, by=admin), admin, other=500.0)

    decision.refresh_from_db()
    assert decision.status == Status.CONTRADICTED
    assert kinds(decision)[-1] == "contradicted"
    assert confirmation.offer(decision) is None


def test_an_inconclusive_confirmation_leaves_it_stale_and_is_offered_again(decision: Decision, admin: User) -> None:
    upgrade(decision.campaign.host)
    planned = confirmation.confirm_decision(decision, by=admin)
    Campaign.objects.filter(pk=planned.pk).update(repetitions=3)  # preliminary

    carry_out(Campaign.objects.get(pk=planned.pk), admin)

    assert kinds(decision)[-1] == "unsettled"
    assert confirmation.offer(decision) is not None


def test_of_several_hosts_each_has_its_own_verdict(decision: Decision, admin: User) -> None:
    other = make_host("other")
    decision.hosts.add(other)
    upgrade(other)
    upgrade(decision.campaign.host)

    planned = confirmation.confirm_decision(decision, by=admin)
    carry_out(planned, admin)

    assert planned.placement == Campaign.Placement.EACH
    assert confirmation.stale_standings(decision) == []
    assert sorted(event.host.name for event in decision.events.filter(kind="confirmed")) == ["bench", "other"]


def test_a_cancelled_campaign_is_offered_again(decision: Decision, admin: User) -> None:
    upgrade(decision.campaign.host)
    planned = confirmation.confirm_decision(decision, by=admin)
    assert confirmation.offer(decision) is None

    services.cancel_campaign(planned, by=admin)

    assert confirmation.offer(decision) is not None


def test_the_number_of_runs_is_that_which_the_effect_needs(admin: User) -> None:
    def evidence(spread: float) -> dict[str, Any]:
        campaign = make_campaign(Campaign.State.FINISHED, by=admin, repetitions=5)
        for run in campaign.runs.all():
            level = 1000.0 if run.label.startswith("1") else 1050.0
            odd = 1 + spread * (-1) ** (run.block + run.label.startswith("1"))
            run.measurements.filter(name="tps").update(value=level * odd)
        return decisions.write_decision(by=admin, campaign=campaign, title="t", decision="d").evidence

    quiet, noisy = evidence(0.001), evidence(0.015)

    assert repetitions_needed.repetitions(quiet) == 5
    assert repetitions_needed.repetitions(quiet) < repetitions_needed.repetitions(noisy) < 50


def test_the_api_says_why_a_decision_is_stale_and_starts_the_campaign(decision: Decision, admin: User) -> None:
    upgrade(decision.campaign.host)
    client, path = browser(admin), f"/api/v1/decisions/{decision.pk}/"

    (standing,) = client.get(path).json()["standings"]
    assert standing["reasons"][0]["text"] == "PostgreSQL changed from 18.6 to 19.0."
    assert [result["id"] for result in client.get("/api/v1/decisions/?stale=true").json()["results"]] == [decision.pk]
    started = client.post(f"{path}confirm/", {"start": True})

    assert (started.status_code, started.json()["state"]) == (201, "running")
    assert client.post(f"{path}confirm/").status_code == 400
