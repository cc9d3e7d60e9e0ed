"""The audit detects lost, duplicate and altered events, overlapping runs and settings that are left changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import transaction

from apps.accounts.models import User
from apps.campaigns.models import Run, RunEvent
from apps.hosts.models import Host
from tests.faults.counts import audit
from tests.faults.counts.audit import Line
from tests.faults.counts.findings import Found
from tests.faults.counts.ledger import Ledger, Row, load
from tests.servers import campaigns, snapshot


@pytest.fixture
def run(host: Host, admin: User) -> Run:
    """A real one that ended well, measured for a second."""
    campaign = campaigns.finish(campaigns.start(host, admin, time_s=1))
    return Run.objects.get(campaign=campaign)


def event(run: Run, kind: str) -> RunEvent:
    return run.events.filter(kind=kind).earliest("seq")


def lose(run: Run) -> None:
    event(run, "command").delete()


def alter(run: Run) -> None:
    event(run, "command").delete()
    RunEvent.objects.filter(pk=event(run, "state").pk).update(data={"state": "RUNNING"})


def lose_a_sample(run: Run) -> None:
    series = run.series.earliest("pk")
    series.samples -= 1
    series.save()


def double_a_sample(run: Run) -> None:
    series = run.series.earliest("pk")
    series.samples += 1
    series.save()


def double(run: Run) -> None:
    last = event(run, "outcome")
    RunEvent.objects.create(run=run, seq=last.seq + 1, at=last.at, kind=last.kind, data=last.data)


HARMS = [(lose, 1, 0), (alter, 2, 0), (lose_a_sample, 1, 0), (double_a_sample, 0, 1), (double, 0, 1)]


def test_the_audit_detects_damage_and_accepts_an_undisturbed_run(run: Run) -> None:
    assert audit.of_runs([run]) == Found(runs=1)
    for harm, lost, duplicated in HARMS:
        with transaction.atomic():
            harm(run)

            assert audit.of_runs([run]) == Found(runs=1, lost=lost, duplicated=duplicated), harm
            transaction.set_rollback(True)


def lines(*moments: float, boot: str = "a") -> list[Line]:
    return [{"boot_id": boot, "mono": mono} for mono in moments]


def test_runs_overlap_when_one_begins_before_the_other_ended() -> None:
    one, after, within = lines(1.0, 5.0), lines(5.0, 9.0), lines(2.0, 3.0)

    assert audit.overlapping([one, after]) == 0
    assert audit.overlapping([one, after, within]) == 1
    assert audit.overlapping([one, lines(2.0, 3.0, boot="b")]) == 0


def test_a_value_that_changed_only_briefly_does_not_count_as_left(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = iter([{"a": "2", "b": "9"}, {"a": "1", "b": "9"}])
    monkeypatch.setattr(snapshot, "PAUSE_S", 0.0)

    assert snapshot.left({"a": "1", "b": "1"}, lambda: next(snapshots, {"a": "2", "b": "9"}), patience_s=0.01) == ["b"]


def test_a_count_above_0_fails_and_is_recorded(tmp_path: Path) -> None:
    ledger = Ledger(test="tests/x.py::test_y")

    ledger.count(7, 3, Found(runs=2))
    with pytest.raises(AssertionError, match="FLUSHALL"):
        ledger.count(7, 1, Found(runs=1, lost=4), ["vm.swappiness"])
    ledger.keep(tmp_path / "seen.json")

    row = Row(**load(tmp_path / "seen.json")["faults"]["7"]["tests/x.py::test_y"])
    assert (row.times, row.runs, row.lost, row.changed) == (4, 3, 4, 1)
