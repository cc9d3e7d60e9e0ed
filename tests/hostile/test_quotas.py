"""Quotas of rows that one host can add: beyond one it is quarantined or refused, and the reason names the quota."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import AuditEntry
from apps.campaigns.execution import dispatch, fetching, received
from apps.campaigns.models import Run
from apps.hosts import contact
from apps.hosts.models import Host, Trouble
from apps.results.store import fold, ingest
from common.errors import HostError
from tests.hostile import lies
from tests.rows.factories import make_campaign, make_host
from tests.servers import machine

pytestmark = pytest.mark.django_db


@pytest.fixture
def host() -> Host:
    return make_host("liar")


def hello(host: Host, **changes: Any) -> dict[str, Any]:
    return lies.HONEST["hello"] | {"machine_id": host.machine_id} | changes


def invented(count: int) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(count)]


def test_a_host_that_invents_conflicts_is_quarantined(host: Host) -> None:
    for _ in range(3):
        contact.record_contact(host, hello(host, conflicts=invented(5000)))

    host.refresh_from_db()
    assert host.troubles.count() == contact.MAX_TROUBLES
    assert host.state == Host.State.QUARANTINED
    assert "5,000 runs; at most 100 are kept open" in host.state_reason


def test_the_same_conflicts_are_reported_once(host: Host) -> None:
    answer = hello(host, conflicts=invented(3))

    contact.record_contact(host, answer)
    contact.record_contact(host, answer)

    assert host.troubles.count() == 3
    assert Host.objects.get(pk=host.pk).state == Host.State.READY


def test_a_host_that_restores_in_each_contact_adds_a_bounded_number_of_audit_rows(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contact, "MAX_RESTORED_A_DAY", 5)
    for _ in range(9):
        contact.record_contact(host, hello(host, recovered=[{"run": lies.RUN, "did": ["x"]}]))

    host.refresh_from_db()
    assert AuditEntry.objects.filter(action="host.restored").count() == 5
    assert "more than 5 times in a day" in host.state_reason


def test_facts_that_change_in_each_contact_are_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contact, "MAX_FACTS_A_DAY", 5)
    host.facts_history.update(taken_at=timezone.now() - 2 * contact.DAY)
    for number in range(5):
        contact.record_facts(host, machine.facts(kernel=machine.kernel(release=f"6.{number}")))

    with pytest.raises(HostError, match="changed 5 times in a day; at most 5"):
        contact.record_facts(host, machine.facts(kernel=machine.kernel(release="7")))


@pytest.mark.thorough
def test_home_shows_a_part_of_20_000_conflicts(admin_client: Client) -> None:
    hosts = [make_host(f"liar{number}") for number in range(4)]
    keys = [{"key": "vm.swappiness", "original": "1", "ours": "2", "found": "3"}] * 1000
    kind = Trouble.Kind.CONFLICT
    Trouble.objects.bulk_create(
        Trouble(host=hosts[n % 4], run=uuid.uuid4(), kind=kind, keys=keys if n >= 19_980 else []) for n in range(20_000)
    )

    page = admin_client.get(reverse("home"))

    assert page.status_code == 200
    assert len(page.content) < 3_000_000
    assert "more on the host's page" in page.content.decode()


@pytest.mark.parametrize("step", ["measure", "nowhere"])
def test_a_restart_that_is_not_in_the_run_is_ignored(step: str) -> None:
    """Each tick of the run failed on it, before the run could end."""
    run = make_campaign("running").runs.first()
    assert run
    Run.objects.filter(pk=run.pk).update(agent_state="REBOOTING", agent_state_at=timezone.now(), step=step)
    run.refresh_from_db()

    dispatch._put_off(run, HostError("liar", "does not answer"))

    run.refresh_from_db()
    assert run.error["message"] == "does not answer"


class Drops:
    """A link that answers each read with one byte of many."""

    calls = 0

    def call(self, verb: str, **_: Any) -> dict[str, Any]:
        self.calls += 1
        return {"data": "eA==", "size": 1 << 24, "sealed": True}


def test_a_file_that_comes_in_drops_ends_the_run() -> None:
    drops = Drops()

    with pytest.raises(received.UnusableError, match="out/x comes in"):
        fetching.fetch(Run(host=Host(name="liar")), drops, "out/x", received.ARTEFACT_BYTES)  # type: ignore[arg-type]

    assert drops.calls < 100


def samples(run: Run, columns: int, count: int = 1, first: int = 1) -> None:
    """Samples with `columns` columns each, of other names in each."""
    for number in range(count):
        values = {f"c{number}_{column}": 1.0 for column in range(columns)}
        data = {"step": "measure", "source": "cpu", "t": number, "values": values}
        run.events.create(seq=first + number, at=timezone.now(), kind="sample", data=data)


def test_samples_with_new_columns_each_time_fail_their_run_only() -> None:
    run = make_campaign("running", 1).runs.order_by("position")[0]
    samples(run, 1000, 5)
    Run.objects.filter(pk=run.pk).update(ingested_at=None, last_seq=5)

    ingest.ingest(run)

    run.refresh_from_db()
    assert run.outcome == Run.Outcome.FAILED
    assert "5,001 columns of one source, at most 4,096" in run.error["message"]
    assert not run.series.exists()


def test_large_samples_are_folded_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "BATCH_VALUES", 20)
    run = make_campaign("running", 1).runs.order_by("position")[0]
    samples(run, 10, 7)

    assert fold.fold(run) == 7
    assert run.series.get().samples == 7
