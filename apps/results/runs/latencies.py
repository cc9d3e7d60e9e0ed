"""Latency distributions of a run: by percentile, over time, by statement. Only reads (SELECT)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.wire.histogram import low_of
from apps.campaigns.models import Run
from apps.results.runs.time_axis import Axis, began_of
from common.errors import ProvingError
from readers.latency import LatencyReport, parse_latency
from readers.measure import fio

FILES = r"^out/[^/]+/(latency|fio)\.json$"
SLOT_BITS = 4
LEAST_US = 0.5  # for less than 1 us, on a logarithmic axis
NINES = 5  # 99.999 %: no run has enough transactions beyond
EVEN = (1, 5, 10, 25, 50, 75)
REST = (10, 7, 5, 2)  # of the range beyond one nine, tenths


@dataclass(frozen=True)
class Curve:
    """Latency by percentile, of `count` transactions or I/Os. A percentile is present if more than one lies beyond
    it."""

    name: str
    count: int
    percents: list[float]
    ms: list[float]


@dataclass(frozen=True)
class Heat:
    """Transactions by their end time and latency.

    `t`: start of each column, in seconds on the run's axis; columns are `width_s` wide. `edges`: between rows, in
    ms, one more than there are rows."""

    t: list[float]
    edges: list[float]
    counts: NDArray[np.float64]
    width_s: int


@dataclass(frozen=True)
class StatementLatency:
    name: str
    sql: str
    ms: float


def curves_of(run: Run) -> list[Curve]:
    """Return the curves of pgbench's transactions, all and script by script, and of fio's I/Os by section and
    direction."""
    return [curve for step, path, content in _files(run) for curve in _read(step, path, content)]


def _files(run: Run) -> Iterator[tuple[str, str, bytes]]:
    artefacts = run.artefacts.filter(path__regex=FILES).exclude(content=None)
    for file in artefacts.order_by("path"):
        _, step, name = file.path.split("/")
        yield step, name, bytes(file.content or b"")


def _read(step: str, name: str, content: bytes) -> Iterator[Curve]:
    """Yield the curves of a file. One that cannot be parsed has none: the measurements of its run give the reason."""
    try:
        if name == "latency.json":
            yield from _of_pgbench(step, parse_latency(content))
        else:
            histograms = [(way.title, way.histogram) for section in fio.latencies(content) for way in section.ways]
            for title, histogram in ((title, histogram) for title, histogram in histograms if histogram):
                yield _curve(f"{step} {title}".strip(), histogram.count, histogram.percentile, 1e6)
    except ProvingError:
        return


def _of_pgbench(step: str, report: LatencyReport) -> Iterator[Curve]:
    yield _curve(f"{step}, {report.loop} loop", report.all.histogram.count, report.all.histogram.percentile, 1000)
    if len(report.scripts) > 1:
        for script in report.scripts:
            yield _curve(f"{step} {script.name}", script.histogram.count, script.histogram.percentile, 1000)
    if report.lag is not None:
        yield _curve(f"{step}, schedule lag", report.lag.count, report.lag.percentile, 1000)


def _curve(name: str, count: int, percentile: Callable[[float], float], per_ms: float) -> Curve:
    known_percents = [percent for percent in percents() if count * (100 - percent) > 100]
    return Curve(
        name, count, known_percents, [percentile(percent) / per_ms for percent in known_percents] if count else []
    )


def percents() -> list[float]:
    """Return percentages: evenly below 90, then as many between each nine and the next, with three decimals as in
    histograms."""
    nines = [round(100 - rest * 10.0 ** (1 - nine), 3) for nine in range(1, NINES) for rest in REST]
    return [*EVEN, *nines, round(100 - 10.0 ** (2 - NINES), 3)]


def heat_of(run: Run, step: str, axis: Axis) -> Heat | None:
    """Return the heat map of a pgbench step whose transactions were logged, for the time that is shown; else None."""
    file = run.artefacts.filter(path=f"out/{step}/latency.json").exclude(content=None).first()
    if file is None:
        return None
    try:
        return _heat(
            parse_latency(bytes(file.content or b"")), began_of(run, step), axis.offsets().get(step, 0.0), axis
        )
    except ProvingError:
        return None


def _heat(report: LatencyReport, began: float | None, offset: float, axis: Axis) -> Heat | None:
    """Return the heat map. Its slots are seconds of the wall clock; `began` is the start of the step on it."""
    if not report.slots:
        return None
    zero = (report.slots[0][0] if began is None else began) - offset
    begin, end = axis.range_from(0.0)
    slots = [(t, row) for t, row in report.slots if begin <= t - zero + report.slot_s and t - zero <= end]
    if not slots:
        return Heat([], [], np.zeros((0, 0)), report.slot_s)
    first, last = slots[0][0], slots[-1][0]
    buckets = sorted({bucket for _, row in slots for bucket, _ in row})
    low, high = buckets[0], buckets[-1]
    columns = (last - first) // report.slot_s + 1
    counts = np.zeros((high - low + 1, columns))
    for second, row in slots:
        for bucket, times in row:
            counts[bucket - low, (second - first) // report.slot_s] += times
    edges = [max(low_of(bucket, SLOT_BITS), LEAST_US) / 1000 for bucket in range(low, high + 2)]
    return Heat([first - zero + place * report.slot_s for place in range(columns)], edges, counts, report.slot_s)


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts statement:2 before statement:10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def statements_of(run: Run) -> list[StatementLatency]:
    """Return the mean latency of each statement of each script, as reported by pgbench -r, in the order of the
    scripts."""
    rows = run.measurements.filter(name__contains="statement:", unit="ms").exclude(definition__startswith="\\")
    return [
        StatementLatency(f"{row.step} {row.name.removesuffix(' latency')}", row.definition, row.value)
        for row in sorted(rows, key=lambda row: (row.step, natural_key(row.name)))
    ]
