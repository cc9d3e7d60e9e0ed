"""A user can give up a run that its agent does not end. The server does it if it cannot process the run."""

from __future__ import annotations

import errno
import struct
import uuid
import zlib
from contextlib import suppress
from pathlib import Path

import asyncssh
import psycopg
import pytest
import redis
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DataError, InterfaceError, InternalError, OperationalError, transaction
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.campaigns import services
from apps.campaigns.execution import claims, dispatch, received, run_end
from apps.campaigns.models import Campaign, Run
from apps.hosts.access import replies
from apps.hosts.models import Host, Lease
from apps.hosts.usage import leases
from common.errors import PlanError, UnreachableError
from tests.rows import populate
from tests.rows.factories import make_host, make_user
from tests.servers import campaigns

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


# What a host's data may raise, and a defect of the server.
UNEXPECTED = [
    *(KeyError("outcome"), ValueError("a NUL: \0"), RecursionError("deep"), DataError("no text")),
    *(RuntimeError("changed while it was read"), AssertionError(), EOFError("cut"), MemoryError(), zlib.error("-3")),
    *(struct.error("unpack needs 4 bytes"), asyncssh.Error(2, "channel"), BrokenPipeError(32, "Broken pipe")),
    ExceptionGroup("several", [ValueError("one")]),
]
# Problems of the server itself: they affect all runs, and pass.
PASSING = [
    *(OperationalError("the connection is closed"), InterfaceError("the connection is closed")),
    *(InternalError("the transaction is read-only"), SoftTimeLimitExceeded()),
    *(redis.exceptions.ConnectionError("refused"), OSError(errno.ENOSPC, "No space left"), OSError(errno.EMFILE, "")),
]


def fail_with(error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch, times: int) -> list[float]:
    """Let `times` ticks of the run raise this error; returns the pauses after them, in seconds."""

    def fail(run: Run, deadline: float) -> None:
        raise error

    monkeypatch.setattr(dispatch, "_work", fail)
    pauses = []
    for _ in range(times):
        Run.objects.filter(pk=run.pk).update(next_tick_at=timezone.now(), claimed_until=None)
        with suppress(*(type(each) for each in PASSING)):
            dispatch.tick(run)
        run.refresh_from_db()
        if run.next_tick_at:
            pauses.append((run.next_tick_at - timezone.now()).total_seconds())
    return pauses


@pytest.mark.parametrize("error", UNEXPECTED, ids=lambda error: type(error).__name__)
def test_a_run_that_cannot_be_processed_time_after_time_fails_with_the_cause(
    run: Run, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of errors ended the run at once. Others, such as RuntimeError, were tried again for ever."""
    fail_with(error, run, monkeypatch, dispatch.MAX_ATTEMPTS)

    host = Host.objects.get(pk=run.host_id)
    assert run.outcome == Run.Outcome.FAILED
    assert type(error).__name__ in run.error["message"]
    assert host.state == Host.State.QUARANTINED
    assert type(error).__name__ in host.state_reason
    assert Lease.objects.get(machine_id=host.machine_id).run is None


def test_a_run_is_tried_again_for_long_enough_to_replace_a_defective_server(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = fail_with(AttributeError("a defect"), run, monkeypatch, dispatch.MAX_ATTEMPTS - 1)

    assert run.state == Run.State.RUNNING
    assert run.host.state != Host.State.QUARANTINED
    assert sum(pauses) > 20 * 60 - len(pauses)
    assert f"attempt {len(pauses)} of {dispatch.MAX_ATTEMPTS}" in run.error["message"]
    assert "AttributeError: a defect" in run.error["message"]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: f"{type(error).__name__} {error}")
def test_a_problem_of_the_server_itself_ends_no_run(
    run: Run, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(error, run, monkeypatch, 2 * dispatch.MAX_ATTEMPTS)

    assert run.state == Run.State.RUNNING
    assert run.host.state != Host.State.QUARANTINED


def test_a_value_that_postgresql_cannot_hold_is_no_problem_of_the_server(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an OperationalError, as a lost connection."""
    too_long = OperationalError("index row size 20000 exceeds btree version 4 maximum 2704")
    too_long.__cause__ = psycopg.errors.ProgramLimitExceeded()

    fail_with(too_long, run, monkeypatch, dispatch.MAX_ATTEMPTS)

    assert run.outcome == Run.Outcome.FAILED


def test_a_host_that_does_not_answer_in_between_adds_no_attempts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(RuntimeError("odd"), run, monkeypatch, dispatch.MAX_ATTEMPTS - 1)
    fail_with(UnreachableError(run.host, "is down"), run, monkeypatch, 3)
    assert run.error["message"] == "is down"

    fail_with(RuntimeError("odd"), run, monkeypatch, 1)

    assert run.outcome == Run.Outcome.FAILED


@pytest.mark.fast
@pytest.mark.django_db(transaction=True)
def test_a_tick_that_works_again_clears_the_attempts(host: Host, admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "FOLLOW_S", 0.5)
    run: Run = campaigns.start(host, admin, time_s=60).runs.get()
    dispatch.tick(run)  # submits it
    with monkeypatch.context() as patch:
        fail_with(RuntimeError("odd"), run, patch, 1)
    assert (run.state, run.error["attempts"]) == (Run.State.RUNNING, 1)
    Run.objects.filter(pk=run.pk).update(next_tick_at=timezone.now())

    dispatch.tick(run)

    run.refresh_from_db()
    assert (run.state, run.error) == (Run.State.RUNNING, None)
    services.cancel_run(run, by=admin)
    campaigns.finish(run.campaign)


@pytest.mark.fast
@pytest.mark.django_db(transaction=True)
def test_a_cancelled_run_whose_events_are_unusable_ends(
    host: Host, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its ticks fails when it reads the events. Cancelling it did nothing."""
    monkeypatch.setattr(claims, "FOLLOW_S", 0.5)
    run: Run = campaigns.start(host, admin, time_s=60).runs.get()
    dispatch.tick(run)  # submits it
    with (Path(host.spool_dir) / "jobs" / str(run.pk) / "events.ndjson").open("ab") as events:
        events.write((b"x" * received.MIN_LINE_BYTES + b"\n") * (received.MAX_DAMAGED + 1))

    services.cancel_run(run, by=admin)
    for _ in range(3):
        dispatch.tick(run)
        run.refresh_from_db()

    assert (run.state, run.outcome) == (Run.State.ENDED, Run.Outcome.FAILED)
    assert "damaged events" in run.error["message"]
    assert run.campaign.ended_at
    assert Host.objects.get(pk=host.pk).state == Host.State.QUARANTINED


def test_a_failure_to_end_a_run_is_an_attempt_as_well(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(run: Run, error: Exception) -> None:
        raise RuntimeError("no end")

    monkeypatch.setattr(run_end, "abandon", fail)

    pauses = fail_with(received.unusable("agent on db1", ValueError("odd")), run, monkeypatch, 2)

    assert len(pauses) == 2
    assert "RuntimeError: no end" in run.error["message"]


def test_a_run_that_cannot_be_ended_is_tried_again_with_pauses(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its last attempt, it was tried again each time its claim expired, for ever."""

    def fail(run: Run, error: Exception) -> None:
        raise RuntimeError("no end")

    with monkeypatch.context() as patch:
        patch.setattr(run_end, "abandon", fail)
        pauses = fail_with(ValueError("odd"), run, patch, dispatch.MAX_ATTEMPTS + 2)
    assert len(pauses) == dispatch.MAX_ATTEMPTS + 2
    assert min(pauses[-3:]) > dispatch.LONGEST_PAUSE_S - 5
    assert "could not end the run after 12 attempts: RuntimeError: no end" in run.error["message"]

    fail_with(ValueError("odd"), run, monkeypatch, 1)

    assert run.outcome == Run.Outcome.FAILED


def test_the_pause_is_bounded_after_however_many_attempts() -> None:
    """The power of two became larger than the largest float."""
    assert dispatch._pause_s(2000) == dispatch.LONGEST_PAUSE_S


@pytest.mark.parametrize("refusing", ["host", "other"])
def test_a_run_whose_facts_are_refused_before_its_start_fails_after_as_many_attempts(
    run: Run, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for ever, and kept the machines of its honest hosts."""
    other = make_host("other", address="db9.example.org")
    hosts = {"host": run.host, "other": other}
    part = run.parts.create(host=other, role="server", position=0, spec=run.spec)
    leases.acquire(other.machine_id, part.pk, 60)
    Run.objects.filter(pk=run.pk).update(state=Run.State.SUBMITTING)
    refused = replies.RefusedError(hosts[refusing], "sent an invalid answer: facts: memory is missing")
    refused.verb = "facts"

    pauses = fail_with(refused, run, monkeypatch, dispatch.MAX_ATTEMPTS - 1)
    assert run.state == Run.State.SUBMITTING
    assert sum(pauses) > 20 * 60 - len(pauses)
    assert run.error["message"] == refused.message
    fail_with(refused, run, monkeypatch, 1)

    assert (run.outcome, run.error["message"]) == (Run.Outcome.FAILED, refused.message)
    assert not Lease.objects.filter(run__isnull=False).exists()
    for name, host in hosts.items():
        host.refresh_from_db()
        assert (host.state == Host.State.QUARANTINED) == (name == refusing)
    assert f"run {run.pk} could not start: sent an invalid answer" in hosts[refusing].state_reason


def fail_to_close(error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Let the end of the run raise this error in so many ticks; returns the attempts that are stored after each."""

    def fail(run: Run, manifest: object) -> None:
        raise error

    def close(run: Run, deadline: float) -> None:
        with transaction.atomic():
            run_end.close(run, Run.Outcome.OK, None, {"clean": False})

    monkeypatch.setattr(run_end, "report_problems", fail)
    monkeypatch.setattr(dispatch, "_work", close)
    attempts = []
    for _ in range(times):
        Run.objects.filter(pk=run.pk).update(next_tick_at=timezone.now(), claimed_until=None)
        dispatch.tick(run)
        run.refresh_from_db()
        attempts.append((run.error or {}).get("attempts", 0))
    return attempts


def test_a_run_that_cannot_be_closed_is_not_at_its_first_attempt_for_ever(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The close is rolled back in the tables, not in the object of the tick: its error had no attempts any more."""
    assert fail_to_close(RuntimeError("odd"), run, monkeypatch, 3) == [1, 2, 3]
    assert fail_to_close(UnreachableError(run.host, "is down"), run, monkeypatch, 2) == [3, 3]

    fail_to_close(RuntimeError("odd"), run, monkeypatch, dispatch.MAX_ATTEMPTS - 3)

    assert (run.state, run.outcome) == (Run.State.ENDED, Run.Outcome.FAILED)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 1_000_000], ids=["NUL", "surrogate", "long"])
def test_the_cause_of_an_unusable_message_can_be_stored(text: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the run failed on it, each time."""
    fail_with(received.unusable(f"agent on {text}", ValueError(text)), run, monkeypatch, 1)

    assert run.outcome == Run.Outcome.FAILED
    assert len(run.error["message"]) < 1000


def test_a_claim_that_another_worker_took_over_is_lost(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that slept used the claim of another one, and failed the run when both released it."""
    Run.objects.filter(pk=run.pk).update(next_tick_at=timezone.now(), claimed_until=None)
    read = Run.refresh_from_db

    def sleep_and_read(self: Run, *args: object, **how: object) -> None:
        Run.objects.filter(pk=run.pk).update(claim=uuid.uuid4())
        read(self, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "refresh_from_db", sleep_and_read)

    assert not run.claim_tick(15)
