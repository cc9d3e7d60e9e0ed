"""Each lie of the table ends as it says: a failed run with its cause, an unreachable host, or a refused value."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.wire.protocol import VERBS, canonical
from apps.accounts.models import AuditEntry, User
from apps.campaigns.execution import claims, dispatch, queue, received
from apps.campaigns.models import Artefact, Run, RunEvent
from apps.hosts.access import event_shapes, replies, ssh
from apps.hosts.models import Facts, Host, Lease, Trouble
from apps.results.store import ingest
from common.errors import HostError
from tests.hostile import lies, memory
from tests.hostile.conftest import Liar
from tests.rows.factories import make_campaign

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.fast]
MAX_MIB = 400
TABS = ("chart", "settings", "commands", "log", "files")


def test_each_verb_and_each_kind_of_event_has_its_lies() -> None:
    """A new one needs rows in lies.py, and a shape."""
    lied = {lie.where.removeprefix("event ") for lie in lies.RUNS if lie.where.startswith("event ")}

    assert set(VERBS) == lies.ANSWERS.keys() == lies.HONEST.keys() == replies.ANSWERS.keys()
    assert lied == event_shapes.EVENTS.keys()
    assert all(lies.ANSWERS.values())


def test_each_lie_in_an_answer_is_refused_by_the_name_of_its_verb(liar: Liar) -> None:
    refusals = Counter[str]()
    with ssh.Link(liar.host) as link:
        for verb, answers in lies.ANSWERS.items():
            for number in range(len(answers)):
                liar.tell(table="answers", verb=verb, number=number)
                with pytest.raises(HostError, match=f"invalid answer: {verb}: ") as refused:
                    link.call(verb)
                assert len(str(refused.value)) < 1000
                refusals[verb] += 1

    assert refusals.keys() == set(VERBS)


def _ends(run: Run) -> tuple[str, str]:
    """The state of the run, and the displayed cause."""
    run = Run.objects.select_related("host").get(pk=run.pk)
    error = (run.error or {}).get("message", "")
    if run.state == Run.State.ENDED:
        return run.outcome, error
    if run.host.state == Host.State.UNREACHABLE:
        return lies.UNREACHABLE, run.host.state_reason
    return lies.WAITS, error


def _carry_out(liar: Liar, run: Run) -> None:
    """As the dispatcher and a worker do, until the run has ended or waits."""
    Run.objects.filter(pk=run.pk).update(next_tick_at=timezone.now())
    for _ in range(3):
        dispatch.tick(run)
        run.refresh_from_db()
        if run.next_tick_at is None or run.next_tick_at > timezone.now():
            break
    ingest.ingest(run)


def _forget(liar: Liar, run: Run) -> None:
    """Somebody released the host."""
    Run.objects.filter(pk=run.pk).exclude(state=Run.State.ENDED).delete()
    Lease.objects.update(run=None, epoch=0)
    Host.objects.filter(pk=liar.host.pk).update(state=Host.State.READY, state_reason="")


@pytest.fixture
def runs(liar: Liar, admin: User, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """A queued run for each lie."""
    monkeypatch.setattr(claims, "FOLLOW_S", 1.0)
    monkeypatch.setattr(queue, "arm_host", lambda host_id: False)
    count = max(len(lies.RUNS), len(lies.FILES))
    campaign = make_campaign("running", by=admin, host=liar.host, repetitions=count // 2 + 1)
    return list(campaign.runs.order_by("position"))


@pytest.mark.thorough
def test_a_run_of_a_host_that_lies_ends_with_its_cause_and_pages_show_it(
    liar: Liar, runs: list[Run], admin: User, client: Client
) -> None:
    client.force_login(admin)
    endings: list[Any] = []
    wrong: list[Any] = []
    for number, (lie, run) in enumerate(zip(lies.RUNS, runs, strict=False)):
        liar.tell(table="runs", number=number)
        with memory.Peak() as peak:
            _carry_out(liar, run)
        ends, says = _ends(run)
        wrong += [(lie.where, lie.name, f"{peak.grown_mib} MiB")] if peak.grown_mib > MAX_MIB else []
        endings.append((lie.where, lie.name, ends))
        if ends != lie.ends or lie.says not in says:
            wrong.append((lie.where, lie.name, lie.ends, lie.says, ends, says[:200]))
        wrong += _pages(client, run) if number % 16 == 0 else []
        _forget(liar, run)

    assert not wrong, "\n".join(map(str, wrong))
    assert len(endings) == len(lies.RUNS)
    most = {"events": 5 * len(lies.RUNS), "artefacts": len(lies.RUNS), "troubles": 0, "facts": 1, "audit": 300}
    assert all(count <= most[name] for name, count in _rows().items()), _rows()


def test_a_file_that_cannot_be_read_fails_its_run_only(
    liar: Liar, runs: list[Run], admin: User, client: Client
) -> None:
    client.force_login(admin)
    wrong: list[Any] = []
    for name, run in zip(lies.FILES, runs, strict=False):
        liar.tell(table="files", name=name)
        _carry_out(liar, run)
        run.refresh_from_db()
        if run.outcome != Run.Outcome.FAILED or not run.ingested_at or not run.error:
            wrong.append((name, run.state, run.outcome, run.error))
        detail = reverse("run_detail", args=[run.pk])
        wrong += [(name, tab) for tab in ("chart", "files") if client.get(f"{detail}?tab={tab}").status_code >= 500]
        _forget(liar, run)

    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("samples", "bytes of events in"),
        ("damaged lines", "damaged events, at most 1,000"),
        ("line without end", "an event of more than 8388608 bytes"),
        ("line in drops", "an event in more than 20 parts"),
    ],
)
@pytest.mark.thorough
def test_a_run_whose_host_floods_it_ends_and_stores_no_more_than_its_quota(
    liar: Liar, runs: list[Run], way: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over SSH, by the ticks of a run, until it ends: nothing else ends the flood."""
    if way == "samples":  # to store 64 MiB of them takes a minute
        monkeypatch.setattr(received, "BURST_BYTES", 4 << 20)
        monkeypatch.setattr(received, "BYTES_PER_S", 0)
    liar.flood(way)
    run = runs[0]
    with memory.Peak() as peak:
        for _ in range(30):
            Run.objects.filter(pk=run.pk).exclude(state=Run.State.ENDED).update(next_tick_at=timezone.now())
            dispatch.tick(run)
            run.refresh_from_db()
            if run.state == Run.State.ENDED:
                break

    assert run.outcome == Run.Outcome.FAILED, (run.state, run.error)
    assert says in run.error["message"]
    assert Host.objects.get(pk=run.host_id).state == Host.State.QUARANTINED
    assert Lease.objects.get(machine_id=run.host.machine_id).run is None
    stored = sum(len(canonical(data)) for data in run.events.values_list("data", flat=True))
    assert stored <= 4 << 20
    assert peak.grown_mib < MAX_MIB


def _pages(client: Client, run: Run) -> list[Any]:
    """Addresses of pages that failed."""
    if not Run.objects.filter(pk=run.pk).exists():
        return []
    detail = reverse("run_detail", args=[run.pk])
    paths = [reverse("home"), reverse("host_list"), reverse("host_detail", args=["liar"])]
    paths += [reverse("campaign_detail", args=[run.campaign_id]), *(f"{detail}?tab={tab}" for tab in TABS)]
    return [(path, status) for path in paths if (status := client.get(path).status_code) not in (200, 404)]


def _rows() -> dict[str, int]:
    tables = {"events": RunEvent, "artefacts": Artefact, "troubles": Trouble, "facts": Facts, "audit": AuditEntry}
    return {name: table.objects.count() for name, table in tables.items()}
