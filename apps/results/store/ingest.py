"""Read an ended run's raw output and samples into measurements and series. Repeating it gives the same result.

Each attempt is counted before it begins: one that reaches a time limit, or uses up the memory, may end without a
further statement. A run that was not read in MAX_ATTEMPTS fails. A lost connection is no attempt, if PostgreSQL
answers again at once."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.campaigns.design import steps
from apps.campaigns.execution import received
from apps.campaigns.models import Run, RunPart
from apps.infrastructure import faults
from apps.results.answers import interim_analyses
from apps.results.models import Mark, Measurement, StepMeans, StepStability
from apps.results.runs import stability
from apps.results.runs.step_means import TRANSACTIONS, per_transaction, step_means
from apps.results.store import fold
from common.errors import WorkloadError
from readers import measure
from readers.postgres.server_log import Checkpoint, parse_checkpoints

SERVER_LOG = "out/postgresql.log"
SERIES = "series.json"
# Limits for a run; runs of a day with all collectors need a tenth.
MAX_ROWS = 10_000
MAX_CHECKPOINTS = 50_000
MAX_PROOF_LINES, MAX_PROOF_CHARACTERS = 1000, 1000
MAX_ATTEMPTS = 3
T = TypeVar("T")

log = logging.getLogger(__name__)


def ingest(run: Run) -> bool:
    """Read the results of an ended run, once. Returns False if they were read before, or if the run has not ended."""
    waiting = Run.objects.filter(pk=run.pk, state=Run.State.ENDED, ingested_at=None)
    attempt = _count_attempt(waiting)
    if attempt is None:
        return False
    try:
        read = _attempt(run, waiting, attempt)
    except MemoryError:  # other tasks of the process use memory, too: the next time there may be enough
        raise
    except Exception as error:  # malformed output of a host, or a defect of a parser
        if faults.is_of_server(error):
            if not isinstance(error, SoftTimeLimitExceeded):
                with suppress(DatabaseError):  # still down: the attempt counts
                    waiting.update(read_attempts=attempt - 1)
            raise
        log.exception("results of run %s cannot be read", run.pk)
        read = _give_up(run, waiting, received.error_text(error))
    if read and run.campaign.stop:
        interim_analyses.analyse(run.campaign)
    return read


@transaction.atomic
def _count_attempt(waiting: QuerySet[Run]) -> int | None:
    """Return the number of this attempt to read a run. None if it was read, or another worker reads it now."""
    row = waiting.order_by().select_for_update(skip_locked=True, no_key=True)  # that of the campaign is not locked
    before = row.values_list("read_attempts", flat=True).first()
    if before is None:
        return None
    waiting.update(read_attempts=before + 1)
    return before + 1


def _attempt(run: Run, waiting: QuerySet[Run], attempt: int) -> bool:
    if attempt > MAX_ATTEMPTS:
        log.error("results of run %s not read in %d attempts", run.pk, MAX_ATTEMPTS)
        return _give_up(run, waiting, f"{MAX_ATTEMPTS} attempts reached the time limit or used up the memory")
    fold.fold(run)  # step by step, so that a repetition after a crash continues
    return _read(run, waiting)


def _give_up(run: Run, waiting: QuerySet[Run], cause: str) -> bool:
    """Fail a run whose data cannot be read and would not be the next time, so that the others are read."""
    message = f"the results cannot be read: {cause}"
    failed = WorkloadError(f"run {run.pk}", message, hint="the raw output is on the page of the run")
    empty = {"checked": 0, "ok": 0, "lines": []}
    ended = {"ingested_at": timezone.now(), "outcome": Run.Outcome.FAILED, "error": failed.as_dict(), "proof": empty}
    if not waiting.update(**ended):
        return False
    run.refresh_from_db()
    return True


@transaction.atomic
def _read(run: Run, waiting: QuerySet[Run]) -> bool:
    if not waiting.update(ingested_at=timezone.now(), proof=_proof(run)):
        return False
    spans = _import_tool_series(run)
    Mark.objects.bulk_create(_at_most(MAX_ROWS, "marks", [*islice(_marks(run), MAX_ROWS + 1), *spans]))
    if run.outcome == Run.Outcome.OK:
        StepStability.objects.bulk_create(stability.stability_findings(run))
        means = {mean.step: mean for mean in _means(run)}
        StepMeans.objects.bulk_create(means.values())
        try:
            Measurement.objects.bulk_create(_at_most(MAX_ROWS, "figures", _measurements(run, means)))
        except WorkloadError as error:
            unreadable = Run.objects.filter(pk=run.pk)
            unreadable.update(outcome=Run.Outcome.FAILED, error=error.as_dict())
    run.refresh_from_db()
    return True


def _at_most(most: int, what: str, rows: list[T]) -> list[T]:
    """Return the rows. ValueError for more than the server stores for a run."""
    if len(rows) > most:
        raise ValueError(f"more than {most:,} {what}")
    return rows


def _means(run: Run) -> Iterator[StepMeans]:
    for step in steps.measured(run.spec["steps"]):
        means = step_means(run, step["name"])
        if means:
            yield means


def _measurements(run: Run, means: Mapping[str, StepMeans]) -> list[Measurement]:
    rows = []
    for step in steps.measured(run.spec["steps"]):
        prefix = f"out/{step['name']}/"
        files = run.artefacts.filter(path__startswith=prefix)
        outputs = {file.path.removeprefix(prefix): bytes(file.content or b"") for file in files}
        for figure in measure.measure(step["kind"], outputs, step["options"]):
            row = Measurement(run=run, step=step["name"], name=figure.name, value=figure.value, unit=figure.unit)
            row.better, row.definition = figure.better, figure.definition
            rows.append(row)
            if figure.name == TRANSACTIONS and step["name"] in means:
                rows += per_transaction(means[step["name"]], figure.value)
    return rows


def _proof(run: Run) -> dict[str, Any]:
    """Return a summary of a run's proofs: how many, how many ok, and the actual values before the restore."""
    proofs: list[dict[str, Any]] = []
    lines: list[str] = []
    jobs: list[Run | RunPart] = [run, *run.parts.all()]
    for job in jobs:
        own = [event.data for event in job.event_log.filter(kind="proof").order_by("seq")]
        where = f"{job.name}: " if isinstance(job, RunPart) else ""
        shown = {f"{each['setting']} {each['subject']}": each["found"] for each in own if each["phase"] != "restored"}
        lines += [f"{where}{subject}: {actual}" for subject, actual in shown.items()]
        proofs += own
    short = [line[:MAX_PROOF_CHARACTERS] for line in lines[:MAX_PROOF_LINES]]
    return {"checked": len(proofs), "ok": sum(bool(proof["ok"]) for proof in proofs), "lines": short}


def _import_tool_series(run: Run) -> list[Mark]:
    """Return marks for the parts of each tool's own series, which replaces the series sampled while the tool ran."""
    began = {f"out/{data['step']}/{SERIES}": data["began"] for data in _measured_steps(run)}
    files = run.artefacts.filter(path__in=list(began)).exclude(content=None).order_by("path")
    marks = []
    for file in files:
        step, series = file.path.split("/")[1], json.loads(bytes(file.content or b"{}"))
        _replace(run, step, series, began[file.path])
        marks += [_span(run, step, span, began[file.path]) for span in series["spans"]]
    return marks


def _replace(run: Run, step: str, series: dict[str, Any], began: float) -> None:
    table = {name: np.array(values, dtype=np.float64) for name, values in series["columns"].items()}
    run.series.filter(step=step, source=series["source"]).delete()
    fold.append(run, step, series["source"], table | {"t": np.round(table["t"] - began, 3)})


def _span(run: Run, step: str, span: dict[str, Any], began: float) -> Mark:
    t, until = round(span["began"] - began, 3), round(span["ended"] - began, 3)
    return Mark(run=run, step=step, kind=Mark.Kind.SECTION, t=t, until=until, label=span["name"][:120], data={})


def _measured_steps(run: Run) -> list[dict[str, Any]]:
    """Return the `measured` event of each step of the run, the last one if there are two. A host may name others."""
    names = [step["name"] for step in run.spec["steps"]]
    events = run.event_log.filter(kind="measured", data__step__in=names).order_by("seq").values_list("data", flat=True)
    return list({data["step"]: data for data in events}.values())


def _marks(run: Run) -> Iterator[Mark]:
    """Yield checkpoints in the server's log within a measured step. All times are by the host's clock."""
    log = run.artefacts.filter(path=SERVER_LOG).exclude(content=None).first()
    parsed = parse_checkpoints(bytes(log.content or b"")) if log else ()
    checkpoints = _at_most(MAX_CHECKPOINTS, "checkpoints", list(parsed))
    return (
        _mark(run, step, checkpoint)
        for step in _measured_steps(run)
        for checkpoint in checkpoints
        if (checkpoint.began or 0) < step["ended"] and (checkpoint.ended or step["ended"]) > step["began"]
    )


def _mark(run: Run, step: dict[str, Any], checkpoint: Checkpoint) -> Mark:
    figures = {name: value for name, value in asdict(checkpoint).items() if value is not None}
    data = {name: figures[name] for name in figures.keys() - {"kind", "began", "ended", "reason"}}
    # A checkpoint that started before the log was opened is present from the start.
    began = step["began"] if checkpoint.began is None else checkpoint.began
    until = None if checkpoint.ended is None else round(checkpoint.ended - step["began"], 3)
    t = round(began - step["began"], 3)
    label = checkpoint.reason or "began before the log"
    return Mark(run=run, step=step["step"], kind=checkpoint.kind, t=t, until=until, label=label, data=data)
