"""A later campaign with the same question confirms or contradicts a decision, or is inconclusive."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Channel, User
from apps.campaigns.execution import campaign_end
from apps.campaigns.models import Campaign
from apps.decisions import services
from apps.decisions.models import Decision
from apps.decisions.validity import reviews
from tests.apps.results.answers.judgements.test_judgements import ended_badly
from tests.rows.factories import end_run, make_campaign

ONE_CPU, OTHER_CPUS = 1000.0, 1900.0


@pytest.fixture
def decision(admin: User) -> Decision:
    """Accepted: two cpus are better than one."""
    campaign = make_campaign(Campaign.State.FINISHED, by=admin, repetitions=5)
    fields = {"title": "Two cpus", "decision": "Give PostgreSQL two cpus"}
    return services.accept_decision(services.write_decision(by=admin, campaign=campaign, **fields), by=admin)


def again(decision: Decision, by: User, *, other: float = OTHER_CPUS, repetitions: int = 5) -> Campaign:
    """The same campaign once more; its second level gives about `other` TPS."""
    old = decision.campaign
    newer = make_campaign(Campaign.State.RUNNING, by=by, host=old.host, workload=old.workload, repetitions=repetitions)
    for run in newer.runs.order_by("position"):
        end_run(run, tps=(ONE_CPU if run.label.startswith("1") else other) + run.block)
    campaign_end.close_campaign(newer.pk)
    newer.refresh_from_db()
    return newer


def verdicts_of(decision: Decision) -> list[str]:
    return [review.verdict for review in decision.reviews.all()]


def test_the_same_result_confirms(decision: Decision, admin: User) -> None:
    again(decision, admin)

    reviews.review_due()

    assert verdicts_of(decision) == ["confirms"]
    assert not reviews.contradicted().exists()


def test_a_contrary_result_is_reported_once_and_becomes_a_task(
    decision: Decision, admin: User, channel: Channel, client: Client
) -> None:
    newer = again(decision, admin, other=500.0)

    reviews.review_due()
    reviews.review_due()

    (delivery,) = channel.deliveries.all()
    assert (delivery.kind, delivery.payload["campaign"]) == ("decision.contradicted", str(newer.pk))
    assert "The evidence found 2 cpus better. Now: " in delivery.payload["text"]
    assert "How effects vary between campaigns is not included" in delivery.payload["text"]
    client.force_login(admin)
    assert "Newer results contradict this decision" in page(client, decision)
    assert "newer results contradict it" in client.get(reverse("home")).content.decode()


def test_results_of_another_figure_neither_confirm_nor_contradict(decision: Decision, admin: User) -> None:
    decision.evidence["table"]["metric"] = "latency_p99"
    decision.save()
    again(decision, admin, other=500.0)

    reviews.review_due()

    assert [review.text for review in decision.reviews.all()] == ["It compared tps; the evidence compared latency_p99."]


def test_a_still_newer_result_that_confirms_takes_the_banner_down(
    decision: Decision, admin: User, client: Client
) -> None:
    again(decision, admin, other=500.0)
    reviews.review_due()
    again(decision, admin)
    reviews.review_due()

    client.force_login(admin)

    assert verdicts_of(decision) == ["contradicts", "confirms"]
    assert "Newer results contradict" not in page(client, decision)


def test_a_level_that_is_still_better_but_fails_more_often_neither_confirms_nor_contradicts(
    decision: Decision, admin: User
) -> None:
    newer = again(decision, admin, repetitions=10)
    for run in newer.runs.filter(block__lt=5):
        if run.label == "2 cpus":
            ended_badly(run)

    reviews.review_due()

    (review,) = decision.reviews.all()
    assert review.verdict == "open"
    assert review.text.startswith("The evidence found 2 cpus better. Now: 2 cpus is better than 1 cpu, but more of ")
    assert review.text.endswith("This neither confirms nor contradicts the decision.")


def test_an_equivalent_result_contradicts_a_decision_for_a_better_one(decision: Decision, admin: User) -> None:
    again(decision, admin, other=ONE_CPU)

    reviews.review_due()

    assert verdicts_of(decision) == ["contradicts"]


def test_a_preliminary_result_sends_no_notification(decision: Decision, admin: User) -> None:
    again(decision, admin, other=500.0, repetitions=3)

    reviews.review_due()

    assert verdicts_of(decision) == ["open"]


def test_other_settings_under_the_same_names_say_nothing(decision: Decision, admin: User) -> None:
    newer = again(decision, admin, other=500.0)
    newer.factors[0]["levels"][1]["set"] = {"settings.cpu_affinity.server": "1"}
    newer.save()

    reviews.review_due()

    assert verdicts_of(decision) == ["open"]


@pytest.mark.parametrize("change", ["host", "workload", "proposed", "older", "unread"])
def test_only_a_later_campaign_with_the_same_question_reviews_a_decision(
    decision: Decision, admin: User, change: str
) -> None:
    newer = again(decision, admin, other=500.0)
    if change == "host":
        decision.hosts.clear()
    elif change == "workload":
        Campaign.objects.filter(pk=newer.pk).update(workload=make_campaign(by=admin).workload)
    elif change == "proposed":
        Decision.objects.update(status=Decision.Status.PROPOSED)
    elif change == "older":
        Campaign.objects.filter(pk=newer.pk).update(ended_at=decision.campaign.ended_at)
    else:
        newer.runs.update(ingested_at=None)

    reviews.review_due()

    assert verdicts_of(decision) == []


def test_an_extended_campaign_is_reviewed_again(decision: Decision, admin: User) -> None:
    newer = again(decision, admin, other=500.0)
    reviews.review_due()

    for run in newer.runs.all():
        tps = (ONE_CPU if run.label.startswith("1") else OTHER_CPUS) + run.block
        run.measurements.filter(name="tps").update(value=tps)
    Campaign.objects.filter(pk=newer.pk).update(ended_at=decision.reviews.get().reviewed_at)
    reviews.review_due()

    assert verdicts_of(decision) == ["confirms"]


def page(client: Client, decision: Decision) -> str:
    return client.get(reverse("decision_detail", args=[decision.pk])).content.decode()


@pytest.fixture
def channel(admin: User) -> Channel:
    return Channel.objects.create(
        owner=admin, name="chat", kind="webhook", address="http://h/", events=["decision.contradicted"]
    )
