"""The content of a run's page, from its events, manifest and artefacts. Only reads (SELECT)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import BinaryField, Func, Q
from django.db.models.functions import Greatest, Length

from agents.settings import SETTINGS
from agents.workloads import WORKLOADS
from apps.campaigns.design import steps
from apps.campaigns.design.before_start import checks, previews, validity
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent, RunPart
from apps.campaigns.queries import first_events, runs_listed
from apps.hosts.facts import topology
from apps.results import queries
from apps.results.models import Measurement
from apps.results.runs import proof
from apps.results.runs.time_axis import Axis
from apps.results.store import samples, series
from common.errors import PlanError

HEAD_BYTES, TAIL_BYTES = 1000, 20_000
MOST_ROWS = 300
RUNS_SHOWN = 50
MOST_FIGURES = 3  # of a sentence
# Of a run. Normal hosts never reach these, but a host may send 64 MiB of events.
MOST_PROOFS, MOST_COMMANDS, MOST_EVENTS, MOST_FILES, MOST_UNSTEADY = 10_000, 1000, 1000, 500, 20
LONGEST_LINE, LONGEST_COMMAND = 1000, 4000  # characters
Rows = Iterable[list[Any]]


@dataclass(frozen=True)
class ShownArtefact:
    """An artefact with the part of its end that a page shows."""

    artefact: Artefact
    text: str
    cut: bool


@dataclass(frozen=True)
class RunsPage:
    """Some of a campaign's runs in order. `before` and `after`: positions for further requests; None if there are no
    more."""

    runs: list[Run]
    before: int | None
    after: int | None

    @property
    def all(self) -> bool:
        return self.before is None and self.after is None


def runs_of(campaign: Campaign, host: int | None = None, before: int | None = None, after: int = -1) -> RunsPage:
    """Return the runs after a position, or before one, of one host or all, with the campaign's metric as `value`;
    two queries."""
    listed = runs_listed(queries.runs_on(campaign, host))
    if before is None:
        rows = list(listed.filter(position__gt=after).order_by("position")[: RUNS_SHOWN + 1])
        runs, earlier, later = rows[:RUNS_SHOWN], after >= 0, len(rows) > RUNS_SHOWN
    else:
        rows = list(listed.filter(position__lt=before).order_by("-position")[: RUNS_SHOWN + 1])
        runs, earlier, later = rows[:RUNS_SHOWN][::-1], len(rows) > RUNS_SHOWN, True
    measured = queries.metric_values(campaign, runs) if campaign.metric else {}
    for run in runs:
        run.value = measured.get(run.pk)  # type: ignore[attr-defined]
        run.took = run.ended_at - run.started_at if run.ended_at and run.started_at else None  # type: ignore[attr-defined]
    edges = (runs[0].position, runs[-1].position) if runs else (after + 1, after)
    return RunsPage(runs, edges[0] if earlier else None, edges[1] if later else None)


def design_of(campaign: Campaign) -> dict[str, Any]:
    """Return what starting a draft would plan, or why it cannot start."""
    try:
        preview = previews.preview(campaign)
    except PlanError as error:
        return {"refusal": error, "checks": validity.checks(campaign)}
    rows = checks.rows(campaign, preview)
    return {"preview": preview, "checks": rows, "failed_checks": [row for row in rows if not row.ok]}


def proof_of(run: Run) -> proof.ProofReport:
    """Return whether the settings of the run were in effect and were restored, on each host of the run."""
    events_by_kind: dict[str, list[dict[str, Any]]] = {"proof": [], "write": []}
    settings, failed = dict[str, Any](), dict[str, dict[str, Any]]()
    jobs: list[Run | RunPart] = [run, *run.parts.all()]
    for job in jobs:
        where = f" on {job.name}" if isinstance(job, RunPart) else ""
        for event in first_events(job.event_log.filter(kind__in=("proof", "write")), MOST_PROOFS):
            events_by_kind[event.kind].append({**event.data, "setting": event.data["setting"] + where})
        spec_settings = job.spec["settings"]
        settings |= {name + where: spec_settings[name] for name in SETTINGS if name in spec_settings}
        if job.error and job.error.get("setting"):
            failed[job.error["setting"].partition(" ")[0] + where] = job.error
    return proof.report(
        settings, events_by_kind["proof"], events_by_kind["write"], run.state == Run.State.ENDED, failed
    )


def hosts_of(run: Run, chosen: str) -> dict[str, Any]:
    """Return the parts of a run over several hosts; facts, log and files of the part with index `chosen`, by default
    the first."""
    parts = list(run.parts.select_related("host", "facts").defer("facts__data"))
    part = next((each for each in parts if str(each.position) == chosen), parts[0])
    files = part.artefacts.defer("content").annotate(fetched=Q(content__isnull=False)).order_by("path")
    machine = topology.line(part.facts.data) if part.facts else ""
    return {"parts": parts, "chosen": part, "machine": machine, "events": log_of(part), "files": files}


def log_of(job: Run | RunPart) -> list[RunEvent]:
    """Return the events of the log on a run's page."""
    return first_events(job.event_log.exclude(kind__in=("sample", "progress")), MOST_EVENTS)


def commands_of(run: Run) -> list[dict[str, Any]]:
    """Return the commands, each with `line` as for a shell."""
    events = first_events(run.event_log.filter(kind="command"), MOST_COMMANDS)
    return [{"at": event.at, **event.data, "line": _cut(command_line(event.data), LONGEST_COMMAND)} for event in events]


def command_line(command: dict[str, Any]) -> str:
    settings = [f"{name}={shlex.quote(str(value))}" for name, value in (command.get("env") or {}).items()]
    return " ".join([*settings, shlex.join(map(str, command["argv"]))])


def artefacts_of(run: Run) -> list[ShownArtefact]:
    """Return the first files of a run, each with the part that a page shows: a run may have 256 MiB of them."""
    start = Greatest(Length("content") - TAIL_BYTES + 1, 1)
    files = run.artefacts.defer("content").annotate(
        fetched=Q(content__isnull=False),
        head=Func("content", 1, HEAD_BYTES, function="substr", output_field=BinaryField()),
        tail=Func("content", start, function="substr", output_field=BinaryField()),
    )
    return [_shown(file) for file in files.order_by("path")[:MOST_FILES]]


def _shown(file: Any) -> ShownArtefact:
    text = "" if b"\0" in bytes(file.head or b"") else bytes(file.tail or b"").decode("utf-8", "replace")
    return ShownArtefact(file, text, file.size > TAIL_BYTES)


def data_of(run: Run) -> dict[str, Any] | None:
    """Return the last `dataset` event of its agent; see agents/wire/protocol.py."""
    event = run.event_log.filter(kind="dataset").order_by("-seq").first()
    return event.data if event else None


def timings_of(run: Run) -> list[tuple[str, float]]:
    """Return (phase, seconds) from the manifest."""
    timings = (run.manifest or {}).get("timings") or {}
    return [(name, seconds) for name, seconds in timings.items() if isinstance(seconds, int | float)]


def unsteady_of(run: Run) -> list[str]:
    """Return the agent's messages about warm-ups that were not steady at their time limit."""
    events = run.event_log.filter(kind="log", data__steady__reached=False).order_by("seq")[:MOST_UNSTEADY]
    return [_cut(message) for message in events.values_list("data__message", flat=True)]


def line_of(event: RunEvent, text: str | None = None) -> dict[str, Any]:
    """Return an event as one line of the log on a run's page, with another text if one is given."""
    shown = text_of(event) if text is None else text
    return {"seq": event.seq, "at": event.at.strftime("%H:%M:%S"), "kind": event.kind, "text": shown}


def text_of(event: RunEvent) -> str:
    """Return an event as one line of text, cut if it is long."""
    return _cut(_whole_text(event))


def _cut(text: str, most: int = LONGEST_LINE) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _whole_text(event: RunEvent) -> str:
    data = event.data
    if event.kind == "state":
        return " ".join(filter(None, [data["state"], data.get("step")]))
    if event.kind == "command":
        return f"{data['purpose']}: {command_line(data)}"
    if event.kind == "write":
        observed = "" if data["found"] == data["wanted"] else f", but is {data['found']}"
        return f"{data['key']}: {data['original']} -> {data['wanted']}{observed}"
    if event.kind == "proof":
        checked = f"{data['setting']} {data['phase']}, {data['subject']}"
        if data["ok"]:
            return f"{checked}: {data['found']}, in effect"
        return f"{checked}: {data['found']} instead of {data['wanted']}, NOT IN EFFECT"
    if event.kind in ("measuring", "measured"):
        return f"step {data['step']} {'begins' if event.kind == 'measuring' else 'has ended'}"
    if event.kind == "outcome":
        return " ".join(filter(None, [data["outcome"], (data.get("error") or {}).get("message")]))
    if event.kind == "dataset":
        used = data["used"] or {}
        usage = f": {used['means']} in {used['seconds']} s, {used['reason']}" if used else ""
        return f"{data['name']} ({data['database']}) is {data['state']}{usage}"
    return str(data.get("message") or data)


def sentence_of(run: Run) -> str:
    """Return the run in one sentence, for users who do not see its chart."""
    figures = ", ".join(f"{row.name} {row.value:.5g} {row.unit}" for row in _main_figures(run))
    outcome = run.get_outcome_display() or run.state
    return f"Run {run.position + 1} ({run.label}): {outcome}" + (f", {figures}." if figures else ".")


def _main_figures(run: Run) -> list[Measurement]:
    """Return the first MOST_FIGURES main figures of the workload in the first measured step."""
    step = next(iter(steps.measured(run.spec["steps"])), None)
    load = WORKLOADS.get(step["kind"]) if step else None
    if not step or not load:
        return []
    order = {name: place for place, name in enumerate(load.main)}
    rows = [row for row in run.measurements.all() if row.step == step["name"] and row.name in order]
    return sorted(rows, key=lambda row: order[row.name])[:MOST_FIGURES]


def table_of(columns: Sequence[samples.Column], axis: Axis, most: int | None = None) -> tuple[list[str], Rows, int]:
    """Return (heading, rows, number of all rows) with the samples of all sources in order of time.

    Cells are "" if a source has no sample at that time. Only the first `most` rows are made. With several steps,
    each row names its step."""
    head = ["t (s)", *(f"{column.source} {column.name} ({column.unit})" for column in columns)]
    times = [column.t[~np.isnan(column.values)].round(1) for column in columns]
    every = np.unique(np.concatenate(times)) if times else np.empty(0)
    shown = every[:most]
    table = np.full((len(shown), len(columns)), np.nan)
    for place, (column, t) in enumerate(zip(columns, times, strict=True)):
        at = np.searchsorted(every, t)
        inside = at < len(shown)
        table[at[inside], place] = column.values[~np.isnan(column.values)][inside]
    pairs = zip(shown.tolist(), table, strict=True)
    rows = ([t, *("" if value != value else value for value in row.tolist())] for t, row in pairs)
    if len(axis.steps) < 2:
        return head, rows, len(every)
    return ["step", *head], ([axis.step_at(row[0]), *row] for row in rows), len(every)


def samples_of(run: Run, panels: Sequence[series.Panel], axis: Axis) -> dict[str, Any]:
    """Return the first rows of a run's samples, for the chart as a table."""
    head, rows, count = table_of(samples.run_columns(run, panels, axis), axis, most=MOST_ROWS)
    return {"head": head, "rows": list(rows), "more": count - MOST_ROWS}
