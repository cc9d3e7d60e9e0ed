"""The trace of an ended run: its phases, at the times at which they happened. Only reads (SELECT)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from django.db.models import Q

from apps import tracing
from apps.campaigns.models import Campaign, Run, RunPart
from apps.campaigns.queries import first_events
from apps.results import phases

MOST_EVENTS = 1000  # of a job; a host may send many
WELL = (Run.Outcome.OK, Run.Outcome.CANCELLED)
log = logging.getLogger(__name__)


def write(run: Run) -> None:
    """Send the spans of an ended run to the collector of traces, if there is one. A run that never started has none.
    A host sends the events, so an error here must not stop the reading of other runs."""
    if not (tracing.is_on() and run.started_at and run.ended_at):
        return
    try:
        tracing.write_run(_trace(run, run.started_at.timestamp(), run.ended_at.timestamp()))
    except Exception:
        log.exception("the trace of run %s was not written", run.pk)


def _trace(run: Run, started: float, ended: float) -> tracing.RunTrace:
    turn = min(_turn(run), started)
    intervals = list(_intervals(run, turn, started, ended))
    for part in run.parts.all():
        intervals += _intervals(part, None, started, ended)
    attributes: dict[str, str | int] = {
        "proving.campaign": str(run.campaign_id),
        "proving.run.number": run.position + 1,
        "proving.host": run.host_id,
        "proving.outcome": run.outcome,
    }
    whole = tracing.Interval("run", turn, ended, attributes, run.outcome not in WELL)
    return tracing.RunTrace(run.pk, whole, intervals)


def _turn(run: Run) -> float:
    """Return when the run could have started: after the run before it on its host, and the start of its campaign."""
    before = Run.objects.filter(host=run.host_id, ended_at__lte=run.started_at).exclude(pk=run.pk)
    last = before.order_by("-ended_at").values_list("ended_at", flat=True).first()
    begun = Campaign.objects.values_list("started_at", flat=True).get(pk=run.campaign_id)
    return max(_seconds(last), _seconds(begun)) or _seconds(run.started_at)


def _seconds(at: datetime | None) -> float:
    return at.timestamp() if at else 0.0


def _intervals(job: Run | RunPart, turn: float | None, started: float, ended: float) -> Iterator[tracing.Interval]:
    events = _events(job)
    shift = phases.shift_of(events, started, ended)
    of_job: dict[str, str | int | float] = {"proving.host": job.host_id}
    if isinstance(job, RunPart):
        of_job["proving.role"] = job.role
    if shift:
        of_job["proving.clock_shift_s"] = round(shift, 3)
    for phase in phases.phases_of(events, turn, started, ended):
        step = {"proving.step": phase.step} if phase.step else {}
        yield tracing.Interval(phase.name, phase.began, phase.ended, {**of_job, **step})


def _events(job: Run | RunPart) -> list[phases.AgentEvent]:
    server = Q(kind="command", data__purpose=phases.SERVER)
    rows = job.event_log.filter(server | Q(kind__in=("state", "measuring", "measured")))
    return [phases.AgentEvent(row.kind, row.at.timestamp(), row.data) for row in first_events(rows, MOST_EVENTS)]
