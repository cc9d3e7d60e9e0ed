"""Writing, accepting, rejecting, superseding and discussing decisions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.wire.protocol import digest
from apps.accounts.models import AuditEntry, User
from apps.campaigns.models import Campaign
from apps.decisions import services
from apps.decisions.models import Decision
from apps.decisions.validity import newer_results
from common.errors import PlanError, RoleError
from tests.rows.factories import browser, end_run, make_campaign, make_host

Status = Decision.Status


@pytest.fixture
def campaign(db: None) -> Campaign:
    return make_campaign(Campaign.State.FINISHED)


def write(by: User, campaign: Campaign, **fields: Any) -> Decision:
    all_fields: dict[str, Any] = {"title": "Two cpus", "decision": "Give PostgreSQL two cpus"} | fields
    return services.write_decision(by=by, campaign=campaign, **all_fields)


def test_a_decision_takes_question_and_host_from_its_campaign(tuner: User, campaign: Campaign) -> None:
    written = write(tuner, campaign)

    assert (written.status, written.question) == (Status.PROPOSED, campaign.question)
    assert list(written.hosts.all()) == [campaign.host]


def test_its_evidence_stays_when_the_figures_change(tuner: User, campaign: Campaign) -> None:
    written = write(tuner, campaign)
    run = campaign.runs.order_by("position")[0]

    run.measurements.update(value=1.0)
    written.refresh_from_db()

    frozen = next(row for row in written.evidence["runs"] if row["id"] == str(run.pk))
    assert frozen["measurements"]["measure.tps"] > 1
    assert written.evidence_digest == digest(written.evidence)
    assert written.evidence["table"]["baseline"] == "1 cpu"


@pytest.mark.parametrize("state", [Campaign.State.DRAFT, Campaign.State.RUNNING])
def test_nothing_is_decided_before_the_end(state: str, tuner: User) -> None:
    with pytest.raises(PlanError, match="has finished or was cancelled") as refused:
        write(tuner, make_campaign(state, runs=2 if state == Campaign.State.RUNNING else 0))

    assert refused.value.subject == "campaign"


def test_nothing_is_decided_before_all_results_are_read(tuner: User, campaign: Campaign) -> None:
    campaign.runs.filter(position=0).update(ingested_at=None)

    with pytest.raises(PlanError, match="results of 1 run are not processed yet"):
        write(tuner, campaign)


def test_only_a_proposed_decision_is_accepted_or_rejected(tuner: User, campaign: Campaign) -> None:
    accepted = services.accept_decision(write(tuner, campaign), by=tuner)
    assert accepted.status == Status.ACCEPTED

    with pytest.raises(PlanError, match=r"is accepted \(only a decision that is proposed can become rejected"):
        services.reject_decision(accepted, by=tuner)


def test_only_its_author_withdraws_a_proposal(tuner: User, admin: User, campaign: Campaign) -> None:
    written = write(tuner, campaign)
    with pytest.raises(PlanError, match="you can reject it"):
        services.withdraw_decision(written, by=admin)

    withdrawn = services.withdraw_decision(written, by=tuner)

    assert withdrawn.status == Status.WITHDRAWN
    assert [event.kind for event in withdrawn.events.all()] == ["withdrawn"]
    with pytest.raises(PlanError, match="is withdrawn"):
        services.accept_decision(withdrawn, by=admin)


def test_both_doors_withdraw_and_the_page_asks_first(client: Client, tuner: User, campaign: Campaign) -> None:
    first, second = write(tuner, campaign), write(tuner, campaign, title="Another")
    client.force_login(tuner)

    page = client.get(reverse("decision_detail", args=[first.pk])).content.decode()
    client.post(reverse("decision_action", args=[first.pk, "withdraw"]))
    answer = browser(tuner).post(f"/api/v1/decisions/{second.pk}/withdraw/")

    assert "Accept this decision?" in page and "Withdraw this proposal?" in page
    assert (Decision.objects.get(pk=first.pk).status, answer.json()["status"]) == ("withdrawn", "withdrawn")


@pytest.mark.parametrize(
    ("compared", "caution"),
    [
        ([], "inconclusive"),
        ([("", False), ("undetectable", False)], "inconclusive"),
        ([("", False), ("points_only", True)], "inconclusive"),
        ([("", False), ("better", True)], "preliminary: some levels have fewer than 5 runs"),
        ([("better", False), ("undetectable", False)], ""),
        ([("equivalent", False)], ""),
        ([("better_failing", False), ("worse", False)], "more of its runs or transactions fail"),
        ([("better_failing", False), ("better", False)], ""),
    ],
)
def test_a_decision_on_a_weak_result_is_cautioned(compared: list[tuple[str, bool]], caution: str) -> None:
    message = newer_results.caution(compared)

    assert caution in message and bool(message) == bool(caution)


def test_the_form_warns_about_a_preliminary_result(client: Client, tuner: User, campaign: Campaign) -> None:
    client.force_login(tuner)

    page = client.get(reverse("decision_new"), {"campaign": campaign.pk}).content.decode()

    assert "The result is preliminary" in page


def test_of_two_users_with_an_old_page_one_is_refused(tuner: User, campaign: Campaign) -> None:
    written = write(tuner, campaign)
    stale = Decision.objects.get(pk=written.pk)
    services.reject_decision(written, by=tuner)

    with pytest.raises(PlanError, match="is rejected"):
        services.accept_decision(stale, by=tuner)

    assert Decision.objects.get(pk=written.pk).status == Status.REJECTED


def test_a_decision_supersedes_another_once(tuner: User, campaign: Campaign) -> None:
    first = services.accept_decision(write(tuner, campaign), by=tuner)

    write(tuner, campaign, title="Four cpus", supersedes=first)
    first.refresh_from_db()
    assert first.status == Status.SUPERSEDED

    with pytest.raises(PlanError, match="only a decision that is proposed or accepted"):
        write(tuner, campaign, title="Eight cpus", supersedes=first)
    assert Decision.objects.count() == 2


def test_a_refused_decision_does_not_supersede_another(tuner: User, campaign: Campaign) -> None:
    first = write(tuner, campaign)

    with pytest.raises(PlanError, match="title"):
        write(tuner, campaign, title=" ", supersedes=first)

    assert Decision.objects.get().status == Status.PROPOSED


def test_a_review_lies_ahead(tuner: User, campaign: Campaign) -> None:
    today = timezone.localdate()

    with pytest.raises(PlanError, match="is in the past"):
        write(tuner, campaign, review_on=today)
    assert write(tuner, campaign, review_on=today + timedelta(days=90)).review_on == today + timedelta(days=90)


def test_roles(operator: User, viewer: User, tuner: User, campaign: Campaign) -> None:
    with pytest.raises(RoleError):
        write(operator, campaign)
    written = write(tuner, campaign)
    with pytest.raises(RoleError):
        services.accept_decision(written, by=operator)
    with pytest.raises(RoleError):
        services.comment(written, "no", by=viewer)
    assert services.comment(written, " I doubt it ", by=operator).text == "I doubt it"


def test_every_act_is_audited(tuner: User, campaign: Campaign) -> None:
    first = services.accept_decision(write(tuner, campaign), by=tuner)
    services.comment(first, "well done", by=tuner)
    write(tuner, campaign, supersedes=first)

    acts = AuditEntry.objects.filter(action__startswith="decision.").order_by("id").values_list("action", flat=True)
    assert list(acts) == [
        *("decision.write", "decision.accepted", "decision.comment", "decision.superseded", "decision.write"),
    ]


def test_an_empty_comment_is_refused(tuner: User, campaign: Campaign) -> None:
    with pytest.raises(PlanError, match="cannot be empty"):
        services.comment(write(tuner, campaign), "  ", by=tuner)


def test_a_decision_through_the_api(tuner: User, campaign: Campaign) -> None:
    client, other = browser(tuner), make_host()
    body = {"campaign": str(campaign.pk), "title": "Two cpus", "decision": "Yes", "hosts": [other.pk]}

    created = client.post("/api/v1/decisions/", body)
    assert created.status_code == 201, created.content
    path = f"/api/v1/decisions/{created.json()['id']}/"
    assert client.post(f"{path}accept/").json()["status"] == "accepted"
    assert client.post(f"{path}comments/", {"text": "agreed"}).json()["author"] == tuner.username
    assert client.get(f"{path}comments/").json()["results"][0]["text"] == "agreed"

    shown = client.get(path).json()
    assert (shown["hosts"], shown["question"]) == ([other.pk], campaign.question)
    assert shown["evidence"]["campaign"]["id"] == str(campaign.pk)
    assert client.post(f"{path}reject/").json()["field"] == "status"


def test_decisions_are_found_by_status_host_and_campaign(tuner: User, campaign: Campaign) -> None:
    write(tuner, campaign)
    client = browser(tuner)

    def count(query: str) -> int:
        return len(client.get(f"/api/v1/decisions/?{query}").json()["results"])

    assert (count("status=proposed"), count("status=accepted")) == (1, 0)
    assert (count(f"host={campaign.host_id}"), count(f"campaign={campaign.pk}")) == (1, 1)
    row = client.get("/api/v1/decisions/").json()["results"][0]
    assert "evidence" not in row


def test_a_cancelled_campaign_can_be_decided_on(tuner: User) -> None:
    campaign = make_campaign(Campaign.State.CANCELLED, runs=4)
    for run in campaign.runs.filter(ingested_at=None):
        end_run(run, "cancelled")

    assert write(tuner, campaign).evidence["table"]["levels"]
