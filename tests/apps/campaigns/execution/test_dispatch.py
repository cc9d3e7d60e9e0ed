"""A run from the queue to its results, with a real agent: one test for each rule of dispatch."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agents.wire import protocol
from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.execution import claims, fetching, queue
from apps.campaigns.execution.ensemble import Ensemble
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host, Lease
from apps.hosts.usage import leases
from apps.results import queries
from common.errors import PlanError
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.fast
def test_a_campaign_runs_until_its_results_are_complete(host: Host, admin: User) -> None:
    cpus = {
        "name": "server cpus",
        "levels": [
            {"label": "cpu 0", "set": {"settings.cpu_affinity.server": "0"}},
            {"label": "any cpu", "set": {}},
        ],
    }

    campaign = campaigns.finish(campaigns.start(host, admin, cpus, repetitions=2, time_s=1))

    table = queries.campaign_table(campaign)
    assert campaign.state == Campaign.State.FINISHED
    assert [(level.label, level.ok, level.planned) for level in table.levels] == [("cpu 0", 2, 2), ("any cpu", 2, 2)]
    assert all(level.mean and level.mean > 0 for level in table.levels)
    assert table.levels[0].proven == 2
    assert any("Cpus_allowed" in line or ": 0" in line for line in table.levels[0].proof_lines)


@pytest.mark.fast
def test_the_records_of_a_run_are_complete(host: Host, admin: User) -> None:
    campaign = campaigns.finish(campaigns.start(host, admin, rate=None))

    run = campaign.runs.get()
    sampled = sum(series.samples for series in run.series.all())
    assert run.outcome == Run.Outcome.OK, run.error
    assert run.events.count() + sampled == run.last_seq == run.manifest["last_seq"]
    assert {"out/measure/stdout", "out/measure/stderr"} <= set(run.artefacts.values_list("path", flat=True))
    assert {series.source for series in run.series.all()} >= {"pgbench", "cpu"}
    assert run.measurements.get(name="tps").definition == "without initial connection time"
    cpu_ms, hits = (run.measurements.get(name=f"{name}_per_transaction").value for name in ("cpu", "blocks_hit"))
    rate = run.measurements.get(name="tps").value
    assert 0.1 < cpu_ms * rate / 1000 < 2 * (os.cpu_count() or 1)  # busy CPUs: neither idle nor more than there are
    assert 2 < hits < 20  # blocks of a look-up by primary key
    assert Lease.objects.get(machine_id=host.machine_id).run is None


def test_a_redelivered_tick_finds_nothing_to_claim(host: Host, admin: User) -> None:
    run = campaigns.start(host, admin).runs.get()
    copy = Run.objects.get(pk=run.pk)

    assert run.claim_tick(60)
    assert not copy.claim_tick(60)


def test_a_tick_that_slept_past_its_claim_writes_nothing(host: Host, admin: User) -> None:
    run = campaigns.start(host, admin).runs.get()
    run.claim_tick(60)
    Run.objects.filter(pk=run.pk).update(claimed_until=timezone.now() - timedelta(seconds=1))
    other = Run.objects.get(pk=run.pk)
    assert other.claim_tick(60)

    with pytest.raises(claims.ClaimLostError):
        Ensemble(run).own.store(event(1))

    assert not run.events.exists()
    assert (run.last_seq, run.events_offset) == (0, 0)


def test_events_that_cannot_be_stored_count_as_unread(host: Host, admin: User) -> None:
    run = campaigns.start(host, admin).runs.get()
    run.claim_tick(60)
    run.events.create(seq=2, at=timezone.now(), kind="log", data={"message": "stored by a mistake"})

    with pytest.raises(IntegrityError):
        Ensemble(run).own.store(event(1) + event(2))

    assert (run.last_seq, run.events_offset) == (0, 0)
    run.refresh_from_db()
    assert (run.last_seq, run.events_offset) == (0, 0)
    assert [stored.seq for stored in run.events.all()] == [2]


def test_no_other_worker_claims_a_run_while_its_events_are_stored(host: Host, admin: User) -> None:
    run = campaigns.start(host, admin).runs.get()
    run.claim_tick(0)
    params = connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}
    with psycopg.connect(**params, autocommit=True) as other, transaction.atomic():
        Ensemble(run).own.store(event(1))
        other.execute("set lock_timeout = '200ms'")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("update campaigns_run set claim = gen_random_uuid() where id = %s", [run.pk])

    assert run.events.count() == 1


def test_a_run_that_another_worker_has_claimed_does_not_begin(host: Host, admin: User) -> None:
    run = campaigns.start(host, admin).runs.get()
    run.claim_tick(0)
    leases.acquire(host.machine_id, run.pk, 60)
    assert Run.objects.get(pk=run.pk).claim_tick(60)

    with pytest.raises(claims.ClaimLostError):
        claims.begin(run)

    assert Lease.objects.get(machine_id=host.machine_id).run == run.pk, "it is the other's now"


def test_a_claim_is_renewed_while_its_tick_waits_for_the_host(host: Host, admin: User) -> None:
    run = campaigns.start(host, admin).runs.get()
    run.claim_tick(0)

    with claims.held(run):
        claims.renew()

    assert not Run.objects.get(pk=run.pk).claim_tick(60)


def test_a_released_claim_is_not_renewed(host: Host, admin: User) -> None:
    run = campaigns.start(host, admin).runs.get()
    run.claim_tick(60)

    with claims.held(run):
        queue.rearm(run, 0)
        claims.renew()

    assert Run.objects.get(pk=run.pk).claim_tick(60)


def test_events_are_stored_while_another_transaction_locks_the_campaign(host: Host, admin: User) -> None:
    """A cancel holds this lock and then locks the run, so waiting for it here would be a deadlock."""
    run = campaigns.start(host, admin).runs.get()
    run.claim_tick(60)
    params = connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}
    with psycopg.connect(**params) as other, transaction.atomic(), connection.cursor() as cursor:
        other.execute("select 1 from campaigns_campaign where id = %s for update", [run.campaign_id])
        cursor.execute("set local lock_timeout = '2s'")

        Ensemble(run).own.store(b"")


def test_two_runs_never_have_the_same_machine(host: Host, admin: User) -> None:
    first = campaigns.start(host, admin).runs.get()
    second = campaigns.start(host, admin).runs.get()

    assert leases.acquire(host.machine_id, first.pk, 60)
    assert leases.raise_epoch(host.machine_id, first.pk, above=0) == 1
    assert not leases.acquire(host.machine_id, second.pk, 60)
    assert leases.release(host.machine_id, first.pk)
    assert leases.acquire(host.machine_id, second.pk, 60)
    assert leases.raise_epoch(host.machine_id, second.pk, above=0) == 2


def test_a_run_that_acquires_its_machine_again_keeps_its_epoch(host: Host, admin: User) -> None:
    run = campaigns.start(host, admin).runs.get()
    leases.acquire(host.machine_id, run.pk, -60)
    epoch = Lease.objects.get(machine_id=host.machine_id).epoch

    assert leases.acquire(host.machine_id, run.pk, 60)

    lease = Lease.objects.get(machine_id=host.machine_id)
    assert (lease.run, lease.epoch) == (run.pk, epoch)
    assert lease.expires_at is not None and lease.expires_at > timezone.now()


def test_an_expired_lease_still_keeps_others_out(host: Host, admin: User) -> None:
    first = campaigns.start(host, admin).runs.get()
    second = campaigns.start(host, admin).runs.get()
    leases.acquire(host.machine_id, first.pk, -60)

    assert not leases.acquire(host.machine_id, second.pk, 60)


def test_only_one_run_per_host_is_armed(host: Host, admin: User) -> None:
    campaigns.start(host, admin, repetitions=3)
    campaigns.start(host, admin, repetitions=3)

    queue.arm_idle_hosts()

    assert Run.objects.filter(next_tick_at__isnull=False).count() == 1


def test_a_running_run_is_cancelled_on_the_host(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin, time_s=60)
    run = campaign.runs.get()

    def measuring() -> bool:
        run.refresh_from_db()
        return run.agent_state == "RUNNING"

    claims.FOLLOW_S, original = 0.5, claims.FOLLOW_S
    try:
        campaigns.drive(measuring)
        services.cancel_campaign(campaign, by=admin)
        campaigns.finish(campaign)
    finally:
        claims.FOLLOW_S = original

    run.refresh_from_db()
    assert (campaign.state, run.outcome) == (Campaign.State.CANCELLED, Run.Outcome.CANCELLED)
    assert run.manifest["clean"]
    assert not run.measurements.exists()
    assert not _processes_below(host.data_dir)


def test_cancelling_ends_queued_runs_without_contacting_the_host(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin, repetitions=5)

    services.cancel_campaign(campaign, by=admin)

    assert set(campaign.runs.values_list("outcome", flat=True)) == {"cancelled"}
    assert campaign.ended_at is not None


def test_a_quarantined_host_gets_no_run(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin)
    Host.objects.filter(pk=host.pk).update(state=Host.State.QUARANTINED, state_reason="left dirty")

    campaigns.step()

    assert campaign.runs.get().state == Run.State.QUEUED
    with pytest.raises(PlanError, match="quarantine"):
        host.refresh_from_db()
        campaigns.start(host, admin)


def test_an_unreachable_host_keeps_its_queue(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin)
    Host.objects.filter(pk=host.pk).update(port=1)

    campaigns.step()

    run = campaign.runs.get()
    host.refresh_from_db()
    assert host.state == Host.State.UNREACHABLE
    assert run.state == Run.State.QUEUED
    assert run.next_tick_at is not None and run.next_tick_at > timezone.now()


def test_a_run_that_its_agent_does_not_know_any_more_fails(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin)
    campaign.runs.update(state=Run.State.RUNNING, started_at=timezone.now(), next_tick_at=timezone.now())

    campaigns.finish(campaign)

    run = campaign.runs.get()
    assert (run.outcome, run.manifest) == (Run.Outcome.FAILED, None)
    assert str(run.pk) in run.error["message"]
    assert Lease.objects.get(machine_id=host.machine_id).run is None


def test_a_started_campaign_does_not_start_twice(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin)

    with pytest.raises(PlanError, match="already started"):
        services.start_campaign(campaign, by=admin)

    assert campaign.runs.count() == 1


def event(seq: int) -> bytes:
    body = {"seq": seq, "boot_id": "b", "wall": timezone.now().timestamp(), "mono": 1.0, "kind": "log"}
    return protocol.sealed({**body, "data": {"level": "info", "message": "starts"}}) + b"\n"


def _processes_below(directory: str) -> list[str]:
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended between the listing and the reading
        if directory in line:
            lines.append(line)
    return lines


def test_a_run_that_was_committed_but_not_acknowledged_is_cleared_at_the_next_contact(
    host: Host, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker killed between its commit and its ack."""
    with monkeypatch.context() as dying:
        dying.setattr(fetching, "forget", lambda *args: None)
        first = campaigns.finish(campaigns.start(host, admin, time_s=1)).runs.get()
    left = Path(host.spool_dir) / "jobs" / str(first.pk)
    assert left.exists()

    campaigns.finish(campaigns.start(host, admin, time_s=1))

    assert not left.exists()
