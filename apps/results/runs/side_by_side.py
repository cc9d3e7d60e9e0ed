"""Compare single runs: their samples on one time axis, and all their figures. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from agents.workloads import SAMPLES
from apps.campaigns.models import Run
from apps.results.answers.comparison.sides import LETTERS
from apps.results.answers.key_figures import TITLES
from apps.results.models import Measurement
from apps.results.runs import time_axis
from apps.results.runs.key_figures import measured_step
from apps.results.runs.latencies import natural_key
from apps.results.store import samples, series
from apps.results.store.samples import Column
from apps.results.store.series import Panel

CPU, WAITS = "cpu.all cpus", "postgresql.wait events"


@dataclass(frozen=True)
class RunSamples:
    """A run with its letter: the samples of its measured step, t in seconds from 0 to `end`."""

    letter: str
    columns: list[Column]
    end: float


@dataclass(frozen=True)
class FigureValue:
    """A figure of one run: its value, and its difference from the first run's; None if either has no value."""

    value: float | None
    difference: float | None = None
    percent: float | None = None


@dataclass(frozen=True)
class FigureRow:
    """One figure of all runs, that of the first run first."""

    step: str
    name: str
    unit: str
    better: str
    changes: list[FigureValue]


def runs_of(keys: Sequence[UUID]) -> list[Run]:
    """Return the runs in the order of `keys`."""
    runs = Run.objects.select_related("campaign", "facts").in_bulk(keys)
    return [runs[key] for key in keys]


def sides_of(runs: Sequence[Run], begin: float | None = None, end: float | None = None) -> list[RunSamples]:
    """Return the samples of load generator, wait events and CPUs of each run."""
    return [_side(letter, run, begin, end) for letter, run in zip(LETTERS, runs, strict=False)]


def _side(letter: str, run: Run, begin: float | None, end: float | None) -> RunSamples:
    known = time_axis.steps_of(run)
    axis = time_axis.axis_of(known, measured_step(run), begin, end)
    panels = [panel for panel in series.panels_of(run) if _is_compared(panel)]
    length = max((step.end or 0.0 for step in axis.steps), default=0.0)
    return RunSamples(letter, samples.run_columns(run, panels, axis), length)


def _is_compared(panel: Panel) -> bool:
    return panel.key in (CPU, WAITS) or (panel.source in SAMPLES and panel.shown)


def rows_of(runs: Sequence[Run]) -> list[FigureRow]:
    """Return every figure that any of the runs has, key figures first; one query."""
    by_figure: dict[tuple[str, str], dict[UUID, Measurement]] = {}
    for row in Measurement.objects.filter(run__in=runs):
        by_figure.setdefault((row.step, row.name), {})[row.run_id] = row
    return [_row(by_figure[key], runs) for key in sorted(by_figure, key=_place)]


def _place(key: tuple[str, str]) -> tuple[str, int, list[tuple[int, str]]]:
    step, name = key
    return step, list(TITLES).index(name) if name in TITLES else len(TITLES), natural_key(name)


def _row(rows: dict[UUID, Measurement], runs: Sequence[Run]) -> FigureRow:
    any_row = next(iter(rows.values()))
    values = [rows[run.pk].value if run.pk in rows else None for run in runs]
    changes = [FigureValue(values[0]), *(_change(values[0], value) for value in values[1:])]
    return FigureRow(any_row.step, any_row.name, any_row.unit, any_row.better, changes)


def _change(first: float | None, value: float | None) -> FigureValue:
    if first is None or value is None:
        return FigureValue(value)
    return FigureValue(value, value - first, 100 * (value / first - 1) if first > 0 else None)
