"""A user can give up a run that its agent does not end. The server does it if it cannot process the run."""

from __future__ import annotations

import uuid

import pytest
from django.utils import timezone

from apps.accounts.models import Role
from apps.campaigns.execution import claims, dispatch, run_end
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host, Lease
from apps.hosts.usage import leases
from common.errors import PlanError
from tests.rows import populate
from tests.rows.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    """The first run of a campaign, active on an unreachable host."""
    campaign = populate.started(make_user(Role.OPERATOR), populate.host(), name="stuck")
    run: Run = campaign.runs.order_by("position")[0]
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, started_at=timezone.now())
    leases.acquire(run.host.machine_id, run.pk, 60)
    run.refresh_from_db()
    return run


def test_a_run_that_is_given_up_fails_and_its_host_is_quarantined(run: Run) -> None:
    run_end.give_up_run(run, by=run.campaign.created_by)

    host = Host.objects.get(pk=run.host_id)
    assert (run.state, run.outcome) == (Run.State.ENDED, Run.Outcome.FAILED)
    assert "gave up the run" in run.error["message"]
    assert host.state == Host.State.QUARANTINED
    assert str(run.pk) in host.state_reason
    assert Lease.objects.get(machine_id=host.machine_id).run is None


def test_a_tick_of_a_run_that_was_given_up_writes_nothing(run: Run) -> None:
    run.claim_tick(60)

    run_end.give_up_run(Run.objects.get(pk=run.pk), by=run.campaign.created_by)

    with pytest.raises(claims.ClaimLostError):
        claims.is_cancelled(run)


def test_a_queued_run_is_cancelled_and_not_given_up(run: Run) -> None:
    waiting = run.campaign.runs.filter(state=Run.State.QUEUED)[0]

    with pytest.raises(PlanError, match="cancel a queued one"):
        run_end.give_up_run(waiting, by=run.campaign.created_by)


def test_the_other_runs_of_the_campaign_wait_for_the_host(run: Run) -> None:
    run_end.give_up_run(run, by=run.campaign.created_by)

    campaign = Campaign.objects.get(pk=run.campaign_id)
    assert campaign.state == Campaign.State.RUNNING
    assert campaign.runs.filter(state=Run.State.QUEUED).exists()


@pytest.mark.parametrize("error", [KeyError("outcome"), ValueError("a NUL"), RecursionError("deep")])
def test_a_run_that_cannot_be_processed_fails_with_the_cause(
    run: Run, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: Run, deadline: float) -> None:
        raise error

    monkeypatch.setattr(dispatch, "_work", fail)
    Run.objects.filter(pk=run.pk).update(next_tick_at=timezone.now())

    dispatch.tick(run)

    run.refresh_from_db()
    assert run.outcome == Run.Outcome.FAILED
    assert type(error).__name__ in run.error["message"]


def test_a_claim_that_another_worker_took_over_is_lost(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that slept used the claim of another one, and failed the run when both released it."""
    Run.objects.filter(pk=run.pk).update(next_tick_at=timezone.now(), claimed_until=None)
    read = Run.refresh_from_db

    def sleep_and_read(self: Run, *args: object, **how: object) -> None:
        Run.objects.filter(pk=run.pk).update(claim=uuid.uuid4())
        read(self, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "refresh_from_db", sleep_and_read)

    assert not run.claim_tick(15)
