"""Every figure of every ok run of a step, as observations for statistics. Only reads (SELECT).

The figures are the means of collectors and the measurements of tools, for the runs with points in a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import stats
from apps.results.answers.changes.figures import (
    COLLECTED,
    LEAST_SHARE,
    MEASURED,
    WatchedFigure,
    collected,
    is_wait,
    wait_figure,
)
from apps.results.answers.observations import MeasuredRun, observations
from apps.results.models import Measurement, StepMeans

TRANSACTIONS = "transactions"
_DECLARED = {figure.key: figure for figure in COLLECTED}


@dataclass(frozen=True)
class PlacedRun:
    """A run with its level and its block."""

    run: UUID
    level: str
    block: int
    position: int
    host: str = ""
    retry: int = 0


@dataclass(frozen=True)
class Observed:
    """Figures in the order of the catalogue, and all observations of each."""

    figures: dict[str, WatchedFigure]
    rows: dict[str, list[stats.Observation]]


def observed(step: str, places: Sequence[PlacedRun], metric: str) -> Observed:
    """Return all figures except the metric, which the table already compares. Two queries, for any number of runs."""
    runs = [place.run for place in places]
    measured: dict[UUID, dict[str, float]] = {}
    units: dict[str, str] = {}
    measurements = Measurement.objects.filter(run__in=runs, step=step, name__in={*MEASURED, TRANSACTIONS}).order_by()
    for name, unit, run, value in measurements.values_list("name", "unit", "run_id", "value"):
        measured.setdefault(run, {})[name], units[name] = value, unit
    values = {run: {name: own[name] for name in own if name in MEASURED} for run, own in measured.items()}
    counts_transactions = TRANSACTIONS in units
    means = StepMeans.objects.filter(run__in=runs, step=step).order_by()
    for run, seconds, data in means.values_list("run_id", "seconds", "data").iterator(chunk_size=100):
        transactions = measured.get(run, {}).get(TRANSACTIONS, 0.0)
        if (
            transactions > 0 or not counts_transactions
        ):  # figures per second are not comparable with those per transaction
            values.setdefault(run, {}).update(collected(data, seconds, transactions))
    values = {run: {key: value for key, value in own.items() if key != metric} for run, own in values.items()}
    figures = _figures(values.values(), units, counts_transactions)
    rows = {key: _rows(figure, places, values) for key, figure in figures.items()}
    return Observed(figures, {key: own for key, own in rows.items() if own})


def _figures(
    values: Iterable[dict[str, float]], units: dict[str, str], counts_transactions: bool
) -> dict[str, WatchedFigure]:
    every = list(values)
    keys = {key for own in every for key in own}
    figures = {}
    for key in [*(key for key in [*MEASURED, *_DECLARED] if key in keys), *sorted(filter(is_wait, keys))]:
        if key in MEASURED:
            title, group = MEASURED[key]
            figures[key] = WatchedFigure(key, title, group, units[key], "gauge")
        elif is_wait(key):
            shares = [own.get(key, 0.0) for own in every]
            if sum(shares) / len(shares) >= LEAST_SHARE:
                figures[key] = wait_figure(key)
        else:
            figures[key] = _per(_DECLARED[key], counts_transactions)
    return figures


def _per(figure: WatchedFigure, counts_transactions: bool) -> WatchedFigure:
    """Return the figure with "per transaction" in its title, or "/s" in its unit."""
    if figure.kind != "count":
        return figure
    if counts_transactions:
        return replace(figure, title=f"{figure.title} per transaction")
    return replace(figure, unit=f"{figure.unit}/s")


def _rows(
    figure: WatchedFigure, places: Sequence[PlacedRun], values: dict[UUID, dict[str, float]]
) -> list[stats.Observation]:
    """Return the runs that have the figure. PostgreSQL's collector leaves out events that never happened: they count
    as 0."""
    absent = 0.0 if figure.source == "postgresql" else None
    runs = []
    for place in places:
        own = values.get(place.run, {})
        value = own.get(figure.key, absent if _has_waits(own) else None)
        if value is not None:
            runs.append(MeasuredRun(place.level, value, place.block, place.position, place.host, place.retry))
    return observations(runs)


def _has_waits(own: dict[str, float]) -> bool:
    """Return whether PostgreSQL's collector ran. There is always an active backend."""
    return any(is_wait(key) for key in own)
