"""SELECT only: every figure of every ok run of a step, as observations that statistics compare.

This is the one place that makes them: of what collectors saw and tools reported, of runs that a table has points of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import stats
from apps.results.answers.changes.figures import (
    COLLECTED,
    LEAST_SHARE,
    MEASURED,
    Figure,
    collected,
    is_wait,
    wait_figure,
)
from apps.results.models import Measurement, StepMeans

TRANSACTIONS = "transactions"
_DECLARED = {figure.key: figure for figure in COLLECTED}


@dataclass(frozen=True)
class Place:
    """Where a run stands: its level, and the block that it is compared in."""

    run: UUID
    level: str
    block: int
    order: int
    retried: bool = False


@dataclass(frozen=True)
class Observed:
    """Figures in the order of the catalogue, and of each all that was observed."""

    figures: dict[str, Figure]
    rows: dict[str, list[stats.Observation]]


def observed(step: str, places: Sequence[Place], metric: str) -> Observed:
    """All but the metric that the table compares already. Two queries, whatever the number of runs."""
    runs = [place.run for place in places]
    names = {*MEASURED, TRANSACTIONS} - {metric}
    measured: dict[UUID, dict[str, float]] = {}
    units: dict[str, str] = {}
    wanted = Measurement.objects.filter(run__in=runs, step=step, name__in=names | {TRANSACTIONS}).order_by()
    for name, unit, run, value in wanted.values_list("name", "unit", "run_id", "value"):
        measured.setdefault(run, {})[name], units[name] = value, unit
    values = {run: {name: own[name] for name in own if name in MEASURED} for run, own in measured.items()}
    means = StepMeans.objects.filter(run__in=runs, step=step).order_by()
    for run, seconds, data in means.values_list("run_id", "seconds", "data").iterator(chunk_size=100):
        transactions = measured.get(run, {}).get(TRANSACTIONS, 0.0)
        values.setdefault(run, {}).update(collected(data, seconds, transactions))
    values = {run: {key: value for key, value in own.items() if key != metric} for run, own in values.items()}
    counts_transactions = TRANSACTIONS in units
    figures = _figures(values.values(), units, counts_transactions)
    rows = {key: _rows(figure, places, values) for key, figure in figures.items()}
    return Observed(figures, {key: own for key, own in rows.items() if own})


def _figures(values: Iterable[dict[str, float]], units: dict[str, str], counts_transactions: bool) -> dict[str, Figure]:
    every = list(values)
    keys = {key for own in every for key in own}
    found = {}
    for key in [*(key for key in [*MEASURED, *_DECLARED] if key in keys), *sorted(filter(is_wait, keys))]:
        if key in MEASURED:
            title, group = MEASURED[key]
            found[key] = Figure(key, title, group, units[key], "gauge")
        elif is_wait(key):
            shares = [own.get(key, 0.0) for own in every]
            if sum(shares) / len(shares) >= LEAST_SHARE:
                found[key] = wait_figure(key)
        else:
            found[key] = _per(_DECLARED[key], counts_transactions)
    return found


def _per(figure: Figure, counts_transactions: bool) -> Figure:
    """Its unit, and what one is of."""
    if figure.kind != "count":
        return figure
    title = f"{figure.title} per transaction" if counts_transactions else figure.title
    unit = figure.unit if counts_transactions else f"{figure.unit}/s"
    return Figure(figure.key, title, figure.group, unit, "count", figure.source, figure.columns, figure.factor)


def _rows(figure: Figure, places: Sequence[Place], values: dict[UUID, dict[str, float]]) -> list[stats.Observation]:
    """Of runs that have the figure; what PostgreSQL's collector leaves out, because it never happened, is 0."""
    absent = 0.0 if figure.source == "postgresql" else None
    found = []
    for place in places:
        own = values.get(place.run, {})
        value = own.get(figure.key, absent if _was_looked_at(own) else None)
        if value is not None:
            found.append(stats.Observation(place.level, place.block, value, place.order, place.retried))
    return found


def _was_looked_at(own: dict[str, float]) -> bool:
    """Whether PostgreSQL's collector ran; there is always a backend that does something."""
    return any(is_wait(key) for key in own)
