"""Quotas of rows that one host can add: beyond one it is quarantined or refused, and the reason names the quota."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agents.wire.protocol import canonical
from apps.accounts.models import AuditEntry, Channel, Delivery, User
from apps.campaigns.execution import dispatch, fetching, received, run_end
from apps.campaigns.models import Artefact, Run, RunEvent
from apps.decisions.pages import home
from apps.hosts import contact
from apps.hosts.access import replies
from apps.hosts.facts import health
from apps.hosts.models import Host, Trouble
from apps.results.store import fold, ingest
from common.errors import HostError
from tests.hostile import lies
from tests.hostile.agent import OUTPUT
from tests.rows.factories import make_campaign, make_host
from tests.servers import machine

pytestmark = pytest.mark.django_db
MEASURED = {"step": "measure", "began": 1599999999.0, "ended": 1600000009.0, "costs": {}}


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


def written() -> int:
    """Bytes of the audit log. Nobody can delete them."""
    return sum(len(canonical([entry.before, entry.after])) for entry in AuditEntry.objects.all())


def subscribe(user: User) -> None:
    fields = {"name": "mail", "kind": "mail", "address": "a@example.org", "events": ["host.unreachable"]}
    Channel.objects.create(owner=user, **fields)


def health_of(host: Host, **changes: Any) -> list[health.Row]:
    reported = lies.HONEST["health"] | changes
    return health.health_rows(reported, hello(host), health.Clock(0.0, 0.1), health.Limits(1024, 2.0, 95.0))


@pytest.mark.thorough
def test_a_host_whose_health_flaps_is_quarantined(host: Host) -> None:
    full = [{"path": "/" + "p" * 4000 + str(number), "free_kb": 0} for number in range(20)]
    for _ in range(contact.MAX_UNFIT_A_DAY + 10):
        contact.record_health(host, health_of(host, space=full))
        contact.record_health(host, health_of(host))

    assert AuditEntry.objects.filter(action="host.unfit").count() == contact.MAX_UNFIT_A_DAY
    assert host.state == Host.State.QUARANTINED
    assert "its health failed more than 50 times in a day. The last time: free space for /ppp" in host.state_reason
    assert len(host.state_reason) < 2100
    assert written() < contact.MAX_UNFIT_A_DAY * 6000


@pytest.mark.thorough
def test_a_host_that_is_unhealthy_and_unreachable_in_turn_has_failed_once(host: Host) -> None:
    """A host with a full disk behind a bad connection was quarantined."""
    contact.record_health(host, health_of(host, celsius=200.0))
    for _ in range(contact.MAX_UNFIT_A_DAY + 10):
        contact.mark_unreachable(host, HostError(host, "is down"))
        host.refresh_from_db()
        contact.record_contact(host, hello(host))

    host.refresh_from_db()
    assert host.state == Host.State.UNFIT
    assert AuditEntry.objects.filter(action="host.unfit").count() == 1


@pytest.mark.thorough
def test_a_host_whose_health_flaps_while_it_is_unreachable_is_quarantined_as_well(host: Host) -> None:
    for _ in range(contact.MAX_UNFIT_A_DAY + 10):
        contact.mark_unreachable(host, HostError(host, "is down"))
        contact.record_health(host, health_of(host, celsius=200.0))
        contact.record_health(host, health_of(host))

    assert host.state == Host.State.QUARANTINED
    assert AuditEntry.objects.filter(action="host.unfit").count() == contact.MAX_UNFIT_A_DAY


@pytest.mark.thorough
def test_a_host_that_is_unreachable_every_other_time_sends_a_bounded_number_of_notifications(
    host: Host, admin: User
) -> None:
    subscribe(admin)
    for _ in range(contact.MAX_NOTICES_A_DAY + 5):
        contact.mark_unreachable(host, HostError(host, "e" * 100_000))
        host.refresh_from_db()
        assert len(host.state_reason) < 2100
        contact.record_contact(host, hello(host))

    sent = [delivery.payload["text"] for delivery in Delivery.objects.order_by("created_at")]
    assert len(sent) == contact.MAX_NOTICES_A_DAY
    assert sent[-1].endswith("no more follow for now.")
    assert max(map(len, sent)) < 3000


def test_a_notification_about_another_host_is_sent_nevertheless(host: Host, admin: User) -> None:
    subscribe(admin)
    for each in [host] * contact.MAX_NOTICES_A_DAY + [make_host("honest")]:
        Host.objects.filter(pk=each.pk).update(state=Host.State.READY)
        contact.mark_unreachable(each, HostError(each, "is down"))

    assert Delivery.objects.filter(payload__host="honest").count() == 1


def test_an_audit_entry_about_restored_settings_is_bounded(host: Host) -> None:
    statuses = [{"run": run, "step": "s" * 999, "did": ["d\U0001f600" * 500] * 99} for run in invented(99)]
    recovered = replies.answer(host, "hello", hello(host, recovered=statuses))["recovered"]

    contact.record_contact(host, hello(host, recovered=recovered))

    assert recovered[0]["did"]
    assert 1000 < written() < 32_000


def test_ten_thousand_dirty_runs_are_counted_and_five_are_named(host: Host) -> None:
    runs = invented(10_000)
    contact.record_contact(host, hello(host, dirty=runs))
    contact.record_health(host, health_of(host))
    host.refresh_from_db()
    assert f"{runs[4]} and 9,995 more could not be restored" in host.state_reason

    contact._released(host, [{"run": runs[0], "did": ["x" * 200] * 20}] * 50, runs)

    host.refresh_from_db()
    assert f"{runs[4]} and 9,995 more; see the manifest" in host.state_reason
    left = health.health_rows(
        lies.HONEST["health"], hello(host, dirty=runs), health.Clock(0, 0), health.Limits(1, 2, 3)
    )
    assert "and 9,995 more" in health.failed(left)
    assert written() < 300_000
    contact._released(host, [{"run": runs[0], "did": ["x" * 200] * 20}] * 50, [])
    assert len(host.troubles.get().resolution) < 2100


@pytest.mark.thorough
def test_thousands_of_values_that_were_not_restored_are_counted(admin_client: Client) -> None:
    """The reason contained all of them, and so did audit log, notification, and the index of the search."""
    run = make_campaign("running").runs.order_by("position")[0]
    proof = lies.PROOF | {"phase": "restored", "ok": False, "found": "f" * 500}
    run.events.bulk_create(
        RunEvent(run=run, seq=seq, at=timezone.now(), kind="proof", data=proof | {"subject": f"{seq} " + "k" * 3000})
        for seq in range(1, 3001)
    )
    sealed = {"conflicts": [], "clean": False, "error": None}

    run_end.report_problems(run, sealed)

    host, trouble = Host.objects.get(pk=run.host_id), Trouble.objects.get()
    assert host.state == Host.State.QUARANTINED
    assert len(host.state_reason) < 2100
    assert len(canonical(trouble.keys)) <= contact.MAX_TROUBLE_BYTES
    assert written() < 10_000
    Trouble.objects.update(closed_at=timezone.now())
    detail = admin_client.get(reverse("host_detail", args=[host.name]))
    assert len(detail.content) < 300_000


@pytest.mark.thorough
def test_home_reads_and_shows_a_part_of_20_000_conflicts(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [make_host(f"liar{number}") for number in range(4)]
    keys = [{"key": "vm.swappiness", "original": "1", "ours": "2", "found": "3"}] * 1000
    kind = Trouble.Kind.CONFLICT
    troubles = [Trouble(host=hosts[n % 4], run=uuid.uuid4(), kind=kind, keys=keys) for n in range(20)]
    Trouble.objects.bulk_create(troubles)
    with CaptureQueriesContext(connection) as of_few:
        admin_client.get(reverse("home"))
    Trouble.objects.bulk_create(Trouble(host=hosts[n % 4], run=uuid.uuid4(), kind=kind) for n in range(19_980))
    Trouble.objects.filter(pk__in=[trouble.pk for trouble in troubles]).update(opened_at=timezone.now())
    read = []
    from_db = Trouble.from_db
    monkeypatch.setattr(Trouble, "from_db", lambda *args: read.append(args) or from_db(*args))

    with CaptureQueriesContext(connection) as of_many:
        page = admin_client.get(reverse("home"))

    assert page.status_code == 200
    assert len(page.content) < 3_000_000
    assert "more on the host's page" in page.content.decode()
    assert len(of_many) <= len(of_few)
    assert 0 < len(read) <= home.MOST_TROUBLES


@pytest.mark.parametrize("step", ["measure", "nowhere"])
def test_a_restart_that_is_not_in_the_run_is_ignored(step: str) -> None:
    """Each tick of the run failed on it, before the run could end."""
    run = make_campaign("running").runs.first()
    assert run
    Run.objects.filter(pk=run.pk).update(agent_state="REBOOTING", agent_state_at=timezone.now(), step=step)
    run.refresh_from_db()

    dispatch._put_off(run, HostError("liar", "does not answer"), 0)

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


def test_samples_of_a_new_source_each_time_fail_their_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MAX_SERIES", 2)
    run = make_campaign("running", 1).runs.order_by("position")[0]
    for seq in (1, 2, 3):
        data = {"step": "measure", "source": f"s{seq}", "t": seq, "values": {"c": 1.0}}
        run.events.create(seq=seq, at=timezone.now(), kind="sample", data=data)
    Run.objects.filter(pk=run.pk).update(ingested_at=None, last_seq=3)

    ingest.ingest(run)

    run.refresh_from_db()
    assert run.outcome == Run.Outcome.FAILED
    assert "3 series, at most 2" in run.error["message"]
    assert not run.series.exists()


CHECKPOINTS = b"".join(b"160000000%d.000 LOG:  checkpoint starting: time\n" % second for second in range(3))


@pytest.mark.parametrize(
    ("path", "content", "named"),
    [(ingest.SERVER_LOG, CHECKPOINTS, "more than 2 marks"), ("out/measure/stdout", OUTPUT, "more than 2 figures")],
    ids=["marks", "figures"],
)
def test_more_marks_or_figures_than_a_run_may_have_fail_it(
    path: str, content: bytes, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MAX_ROWS", 2)
    run = make_campaign("running", 1).runs.order_by("position")[0]
    run.events.create(seq=1, at=timezone.now(), kind="measured", data=MEASURED)
    run.artefacts.all().delete()
    run.measurements.all().delete()
    Artefact.objects.create(run=run, path=path, size=len(content), sha256="0" * 64, content=content)
    Run.objects.filter(pk=run.pk).update(ingested_at=None, last_seq=1)

    ingest.ingest(run)

    run.refresh_from_db()
    assert run.outcome == Run.Outcome.FAILED
    assert named in run.error["message"]
    assert not run.marks.exists() and not run.measurements.exists()
