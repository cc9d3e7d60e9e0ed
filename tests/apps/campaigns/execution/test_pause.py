"""A paused campaign begins no run, a resumed one continues; both states are in PostgreSQL alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.campaigns import lifecycle, services
from apps.campaigns.execution import claims, halts, queue
from apps.campaigns.history import history
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host, Lease
from apps.hosts.usage import leases
from apps.results import queries
from common.errors import PlanError, RoleError
from tests.rows.factories import end_run, make_campaign, make_user
from tests.servers import campaigns


@pytest.fixture
def running(admin: User) -> Campaign:
    return make_campaign(Campaign.State.RUNNING, by=admin)


def armed(campaign: Campaign) -> int:
    return campaign.runs.filter(next_tick_at__isnull=False).count()


def until(run: Run, state: str) -> Callable[[], bool]:
    def reached() -> bool:
        run.refresh_from_db()
        return run.agent_state == state

    return reached


def test_a_paused_campaign_has_no_armed_run_and_a_resumed_one_has_its_next(running: Campaign, admin: User) -> None:
    assert armed(running) == 1

    lifecycle.pause_campaign(running, by=admin, reason="the rack is moved")
    queue.arm_idle_hosts()
    assert (running.state, running.state_reason, armed(running)) == ("paused", "the rack is moved", 0)

    lifecycle.resume_campaign(running, by=admin)
    assert (running.state, running.state_reason, armed(running)) == ("running", "", 1)


def test_the_host_of_a_paused_campaign_takes_the_next_one(running: Campaign, admin: User) -> None:
    other = make_campaign(Campaign.State.RUNNING, by=admin, host=running.host)
    assert (armed(running), armed(other)) == (1, 0)

    lifecycle.pause_campaign(running, by=admin)

    assert (armed(running), armed(other)) == (0, 1)


def test_a_pause_releases_the_lease_of_a_queued_run(running: Campaign, admin: User) -> None:
    waiting = running.runs.get(next_tick_at__isnull=False)
    leases.acquire(running.host.machine_id, waiting.pk, 60)

    lifecycle.pause_campaign(running, by=admin)

    assert Lease.objects.get(machine_id=running.host.machine_id).run is None


def test_cancelling_releases_the_lease_of_a_queued_run(running: Campaign, admin: User) -> None:
    waiting = running.runs.get(next_tick_at__isnull=False)
    leases.acquire(running.host.machine_id, waiting.pk, 60)

    services.cancel_campaign(running, by=admin)

    assert Lease.objects.get(machine_id=running.host.machine_id).run is None


def test_a_run_that_was_claimed_just_before_the_pause_does_not_begin(running: Campaign, admin: User) -> None:
    run = running.runs.get(next_tick_at__isnull=False)
    assert run.claim_tick(60)
    leases.acquire(running.host.machine_id, run.pk, 60)

    lifecycle.pause_campaign(running, by=admin)

    assert not claims.begin(run)
    assert run.state == Run.State.QUEUED


@pytest.mark.parametrize("state", [Campaign.State.DRAFT, Campaign.State.FINISHED, Campaign.State.CANCELLED])
def test_only_active_campaigns_are_paused_and_only_paused_ones_resumed(state: str, admin: User) -> None:
    campaign = make_campaign(state, by=admin)

    with pytest.raises(PlanError, match=f"is {state}"):
        lifecycle.pause_campaign(campaign, by=admin)
    with pytest.raises(PlanError, match=f"is {state}"):
        lifecycle.resume_campaign(campaign, by=admin)


def test_a_viewer_pauses_nothing(running: Campaign) -> None:
    with pytest.raises(RoleError):
        lifecycle.pause_campaign(running, by=make_user(Role.VIEWER))


def test_a_paused_campaign_can_be_cancelled(running: Campaign, admin: User) -> None:
    lifecycle.pause_campaign(running, by=admin)

    services.cancel_campaign(running, by=admin)

    assert running.state == Campaign.State.CANCELLED and running.ended_at is not None


def test_the_history_has_user_action_and_reason(running: Campaign, admin: User) -> None:
    lifecycle.pause_campaign(running, by=admin, reason="the rack is moved")
    lifecycle.resume_campaign(running, by=admin)
    services.cancel_run(running.runs.order_by("position")[3], by=admin)

    entries = [(each.who, each.what, each.detail) for each in history(running)]

    assert entries == [
        ("ada", "was created", "seed 1"),
        ("ada", "was started", "6 runs planned"),
        ("ada", "was paused", "the rack is moved"),
        ("ada", "was resumed", "was paused: the rack is moved"),
        ("ada", "cancelled a run", "run 4"),
    ]


def test_too_many_failures_pause_it_and_resuming_resets_their_number(admin: User) -> None:
    campaign = make_campaign(Campaign.State.RUNNING, by=admin, max_failures=2)
    runs = list(campaign.runs.order_by("position"))
    halts.after(end_run(runs[0], Run.Outcome.FAILED))
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.RUNNING

    halts.after(end_run(runs[1], Run.Outcome.NOT_IN_EFFECT))
    campaign.refresh_from_db()
    assert campaign.state_reason == "2 runs failed; the limit is 2"
    assert history(campaign)[-1].who == ""

    lifecycle.resume_campaign(campaign, by=admin)
    halts.after(end_run(runs[2], Run.Outcome.FAILED))
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.RUNNING


def test_no_run_begins_that_would_not_end_within_the_budget(admin: User) -> None:
    campaign = make_campaign(Campaign.State.RUNNING, by=admin, budget_h=0.01)  # 36 s
    runs = list(campaign.runs.order_by("position"))

    for run in runs[:2]:
        halts.after(end_run(run, wall_s=15))
    campaign.refresh_from_db()

    assert campaign.state == Campaign.State.FINISHED and campaign.ended_at is not None
    assert campaign.state_reason.startswith("0.01 of 0.01 hours are used, and the next run takes about 15 s")
    assert campaign.state_reason.endswith("; 4 planned runs did not start")
    assert campaign.runs.count() == 2


def test_buttons_pause_and_resume(client: Client, running: Campaign, admin: User) -> None:
    client.force_login(admin)

    client.post(reverse("campaign_action", args=[running.pk, "pause"]))
    page = client.get(reverse("campaign_detail", args=[running.pk])).content.decode()
    assert "Paused: by ada. No new run starts" in page and "was paused" in page
    client.post(reverse("campaign_action", args=[running.pk, "resume"]))

    running.refresh_from_db()
    assert running.state == Campaign.State.RUNNING


def test_the_active_run_continues_during_a_pause_and_the_rest_after_it(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin, repetitions=2, time_s=1)
    first = campaign.runs.order_by("position")[0]
    claims.FOLLOW_S, original = 0.5, claims.FOLLOW_S
    try:
        campaigns.drive(until(first, "RUNNING"))
        lifecycle.pause_campaign(campaign, by=admin)
        campaigns.drive(lambda: Run.objects.filter(pk=first.pk, ingested_at__isnull=False).exists())
    finally:
        claims.FOLLOW_S = original
    for _ in range(3):
        campaigns.step()
    assert list(campaign.runs.order_by("position").values_list("outcome", flat=True)) == ["ok", ""]

    lifecycle.resume_campaign(campaign, by=admin)
    campaigns.finish(campaign)

    assert set(campaign.runs.values_list("outcome", flat=True)) == {"ok"}


def test_a_run_that_a_pause_stops_runs_again_and_counts_once(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin, time_s=30)
    first = campaign.runs.get()
    claims.FOLLOW_S, original = 0.5, claims.FOLLOW_S
    try:
        campaigns.drive(until(first, "RUNNING"))
        lifecycle.pause_campaign(campaign, by=admin, stop=True)
        campaigns.drive(lambda: Run.objects.filter(pk=first.pk, ingested_at__isnull=False).exists())
    finally:
        claims.FOLLOW_S = original
    first.refresh_from_db()
    again = campaign.runs.get(retry_of=first)

    table = queries.campaign_table(campaign)
    assert (first.outcome, first.manifest["clean"]) == (Run.Outcome.CANCELLED, True)
    assert (again.state, again.cell, again.block) == (Run.State.QUEUED, first.cell, first.block)
    assert (table.levels[0].planned, table.levels[0].not_ok) == (1, 1)
    campaign.refresh_from_db()
    assert (campaign.state, campaign.ended_at) == (Campaign.State.PAUSED, None)


def test_a_run_that_succeeds_before_it_is_stopped_does_not_run_again(running: Campaign, admin: User) -> None:
    run = running.runs.order_by("position")[0]
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)
    lifecycle.pause_campaign(running, by=admin, stop=True)
    assert running.runs.filter(retry_of=run).exists()

    halts.after(end_run(run))

    assert not running.runs.filter(retry_of=run).exists()
