"""Unreadable files of a host fail their own run only."""

from __future__ import annotations

import json
import zlib
from typing import Any

import psycopg
import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import Error, InternalError, OperationalError, ProgrammingError
from django.utils import timezone

from apps.campaigns.models import Artefact, Campaign, Run, RunEvent
from apps.results import tasks
from apps.results.answers import interim_analyses
from apps.results.store import fold, ingest
from tests.rows.factories import make_campaign

pytestmark = pytest.mark.django_db
MEASURED = {"step": "measure", "began": 1795273600.0, "ended": 1795273610.0, "costs": {}}
SERIES: dict[str, Any] = {"source": "fio", "columns": {"t": [1795273601.0], "read_iops": [7.0]}, "spans": []}
BAD_SERIES: list[Any] = [
    b"",
    b"[" * 100_000,
    b"null",
    b"[]",
    b"\xff\xfe",
    {},
    {**SERIES, "columns": None},
    {**SERIES, "columns": {"t": ["soon"]}},
    {**SERIES, "columns": {"t": [1.0, 2.0], "read_iops": [1.0]}},
    {**SERIES, "columns": {"read_iops": [1.0]}},
    {**SERIES, "source": "x" * 5000},
    {**SERIES, "source": "a\0b"},
    {**SERIES, "spans": [{"name": 7}]},
    {**SERIES, "spans": [{"name": "a\0", "began": 1.0, "ended": 2.0}]},
    {**SERIES, "spans": [{"name": "far", "began": 1e308, "ended": -1e308}]},
]
BAD_EVENTS: list[tuple[str, Any]] = [
    ("proof", {}),
    ("proof", {"setting": 1, "subject": None, "found": {}, "phase": []}),
    ("measured", {"step": 7, "began": "now"}),
    ("sample", {"step": "measure", "source": "cpu", "t": "late", "values": {"busy": 1}}),
    ("sample", {"step": "measure", "source": "cpu", "t": 1, "values": [1]}),
    ("sample", {"step": None, "source": [], "t": 1, "values": {"busy": {}}}),
]


@pytest.fixture
def runs() -> list[Run]:
    """A run whose host is hostile, and one of another campaign: both ended, neither is read."""
    ended = []
    for _ in range(2):
        run = make_campaign(state=Campaign.State.RUNNING).runs.order_by("position")[0]
        run.state, run.outcome, run.next_tick_at, run.manifest = Run.State.ENDED, Run.Outcome.OK, None, {"files": []}
        run.started_at = run.ended_at = timezone.now()
        run.save()
        Run.objects.filter(campaign=run.campaign).exclude(pk=run.pk).update(ingested_at=timezone.now())
        tell(run, 1, "measured", MEASURED)
        ended.append(run)
    return ended


def tell(run: Run, seq: int, kind: str, data: Any) -> None:
    RunEvent.objects.create(run=run, seq=seq, at=timezone.now(), kind=kind, data=data)


def read_all(bad: Run, good: Run) -> None:
    """As the beat does; whichever was first."""
    tasks.fold_due()
    tasks.ingest_due()
    bad.refresh_from_db()
    good.refresh_from_db()


@pytest.mark.parametrize("content", BAD_SERIES, ids=lambda content: str(content)[:30])
def test_one_bad_series_does_not_stop_the_results_of_other_runs(runs: list[Run], content: Any) -> None:
    bad, good = runs
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    Artefact.objects.create(run=bad, path="out/measure/series.json", size=len(data), sha256="0" * 64, content=data)

    read_all(bad, good)

    assert good.ingested_at
    assert bad.ingested_at
    assert bad.error


@pytest.mark.parametrize(("kind", "data"), BAD_EVENTS, ids=[str(event)[:50] for event in BAD_EVENTS])
def test_one_bad_event_does_not_stop_the_results_of_other_runs(runs: list[Run], kind: str, data: Any) -> None:
    bad, good = runs
    tell(bad, 2, kind, data)

    read_all(bad, good)

    assert good.ingested_at
    assert bad.ingested_at


@pytest.mark.parametrize("error", [zlib.error("-3"), EOFError("cut"), AssertionError(), RuntimeError("changed")])
def test_an_error_that_no_list_has_fails_its_run_only(
    runs: list[Run], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading stopped at this run, each time: no result of later runs was read."""
    bad, good = runs
    read = ingest._read

    def fail(run: Run, waiting: Any) -> bool:
        if run.pk == bad.pk:
            raise error
        return read(run, waiting)

    monkeypatch.setattr(ingest, "_read", fail)

    read_all(bad, good)

    assert good.ingested_at and "cannot be read" not in str(good.error)
    assert bad.outcome == Run.Outcome.FAILED
    assert f"cannot be read: {type(error).__name__}" in bad.error["message"]


def of_postgresql(error: Error, cause: psycopg.Error) -> Error:
    """The error as Django raises it, which tells its SQLSTATE by its cause only."""
    error.__cause__ = cause
    return error


OF_THE_SERVER = [
    OperationalError("the connection is closed"),
    of_postgresql(ProgrammingError("column does not exist"), psycopg.errors.UndefinedColumn()),
    of_postgresql(ProgrammingError("permission denied"), psycopg.errors.InsufficientPrivilege()),
    of_postgresql(InternalError("read-only transaction"), psycopg.errors.ReadOnlySqlTransaction()),
    SoftTimeLimitExceeded(),
]


@pytest.mark.parametrize("error", OF_THE_SERVER, ids=str)
def test_a_problem_of_the_server_fails_no_run_and_ends_the_task(
    runs: list[Run], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit of the task failed good runs behind a long backlog; the task went on until it was killed."""
    tried: list[Run] = []

    def fail(run: Run, waiting: Any) -> bool:
        tried.append(run)
        raise error

    monkeypatch.setattr(ingest, "_read", fail)

    with pytest.raises(type(error)):
        read_all(*runs)

    assert len(tried) == 1
    assert not Run.objects.filter(pk__in=[run.pk for run in runs]).exclude(ingested_at=None).exists()


def test_a_run_that_takes_too_long_leaves_its_turn_to_others_and_fails_in_the_end(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the first one each time, for ever: no result of any other run was read."""
    bad, good = runs
    read = ingest._read

    def take_too_long(run: Run, waiting: Any) -> bool:
        if run.pk == bad.pk:
            raise SoftTimeLimitExceeded
        return read(run, waiting)

    monkeypatch.setattr(ingest, "_read", take_too_long)

    for _ in range(ingest.MAX_ATTEMPTS):
        with pytest.raises(SoftTimeLimitExceeded):
            tasks.ingest_due()
    good.refresh_from_db()
    bad.refresh_from_db()
    assert good.ingested_at and "cannot be read" not in str(good.error)
    assert bad.ingested_at is None
    tasks.ingest_due()
    bad.refresh_from_db()

    assert bad.ingested_at and bad.outcome == Run.Outcome.FAILED
    assert "the results cannot be read: 3 attempts reached the time limit" in bad.error["message"]


def test_a_lost_connection_is_no_attempt_to_read_a_run(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(run: Run, waiting: Any) -> bool:
        raise OperationalError("the connection is closed")

    with monkeypatch.context() as lost:
        lost.setattr(ingest, "_read", fail)
        for _ in range(2 * ingest.MAX_ATTEMPTS):
            with pytest.raises(OperationalError):
                tasks.ingest_due()

    read_all(*runs)

    assert all(run.ingested_at and run.read_attempts == 1 for run in runs)


def test_a_run_whose_samples_are_moved_step_by_step_needs_as_many_attempts_as_it_takes(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs[0]
    batches = 2 * ingest.MAX_ATTEMPTS
    for seq in range(2, 2 + batches):
        tell(run, seq, "sample", {"step": "measure", "source": "cpu", "t": seq, "values": {"busy": 1}})
    monkeypatch.setattr(fold, "BATCH", 1)
    batch = fold._batch

    def take_long(*args: Any) -> tuple[int, bool]:
        batch(*args)
        raise SoftTimeLimitExceeded

    with monkeypatch.context() as slow:
        slow.setattr(fold, "_batch", take_long)
        for _ in range(batches):
            with pytest.raises(SoftTimeLimitExceeded):
                ingest.ingest(run)

    ingest.ingest(run)

    run.refresh_from_db()
    assert run.ingested_at and "cannot be read" not in str(run.error)
    assert run.series.get(source="cpu").samples == batches


def test_no_further_run_is_read_when_little_of_the_time_limit_is_left(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit would count as an attempt of a run that was hardly begun."""
    monkeypatch.setattr(tasks, "BEGIN_S", 0.0)

    tasks.ingest_due()

    assert not Run.objects.filter(pk__in=[run.pk for run in runs]).exclude(ingested_at=None).exists()


def test_checkpoints_are_not_compared_with_steps_that_the_run_does_not_have(runs: list[Run]) -> None:
    """A thousand invented steps and a log of 400,000 checkpoints took longer than the time limit."""
    run = runs[0]
    tell(run, 2, "measured", MEASURED | {"step": "invented"})
    line = b"1795273605.000 LOG:  checkpoint starting: time\n"
    Artefact.objects.create(run=run, path=ingest.SERVER_LOG, size=len(line), sha256="0" * 64, content=line)

    ingest.ingest(run)

    assert {mark.step for mark in run.marks.all()} == {"measure"}


def test_a_log_of_very_many_checkpoints_fails_its_run_only(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = runs
    monkeypatch.setattr(ingest, "MAX_CHECKPOINTS", 2)
    lines = b"".join(b"160000000%d.000 LOG:  checkpoint starting: time\n" % second for second in range(3))
    digest = "0" * 64
    Artefact.objects.create(run=bad, path=ingest.SERVER_LOG, size=len(lines), sha256=digest, content=lines)

    read_all(bad, good)

    assert bad.outcome == Run.Outcome.FAILED and "more than 2 checkpoints" in bad.error["message"]
    assert good.ingested_at


def test_a_lack_of_memory_fails_no_run(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next time there may be enough: other tasks of the process use it, too."""

    def fail(run: Run, waiting: Any) -> bool:
        raise MemoryError

    monkeypatch.setattr(ingest, "_read", fail)

    read_all(*runs)

    assert not Run.objects.filter(pk__in=[run.pk for run in runs]).exclude(ingested_at=None).exists()


def test_a_value_that_the_driver_cannot_send_fails_its_run_only(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a ProgrammingError, as a missing column, but a host may cause it."""
    bad, good = runs

    def fail(run: Run, waiting: Any) -> bool:
        raise of_postgresql(ProgrammingError("cannot adapt type"), psycopg.ProgrammingError())

    monkeypatch.setattr(ingest, "_read", fail)

    read_all(bad, good)

    assert bad.outcome == Run.Outcome.FAILED


def test_an_analysis_that_fails_stops_no_other(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    Campaign.objects.update(stop={"between": []})
    analysed: list[Campaign] = []

    def fail(campaign: Campaign) -> None:
        analysed.append(campaign)
        raise RuntimeError("odd")

    monkeypatch.setattr(interim_analyses, "analyse", fail)

    tasks.ingest_due()

    assert {run.campaign for run in runs} <= set(analysed)
