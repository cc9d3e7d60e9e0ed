"""Samples of a run for its charts: those in columns, and newer ones in events. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from django.db.models import Q, QuerySet
from numpy.typing import NDArray

from apps.campaigns.models import Run
from apps.results.models import Block, Series
from apps.results.runs import nodes
from apps.results.runs.thin import edges, holes
from apps.results.runs.time_axis import Axis, part_step
from apps.results.store.fold import CHUNK, Table, table_of
from apps.results.store.series import Panel, factor, facts_of, panel_of

# Samples that are still events; normal hosts have some 3,000, of some 500 values.
MOST_NEW, MOST_NEW_VALUES = 20_000, 2_000_000
T = TypeVar("T")
Floats = NDArray[np.float64]
Source = tuple[str, str]  # step and source


@dataclass(frozen=True)
class Column:
    """One line of a panel: samples over t, in seconds on the axis; nan where a sample is missing or none was taken."""

    source: str
    name: str
    unit: str
    panel: Panel
    t: Floats
    values: Floats


def run_columns(run: Run, panels: Collection[Panel], axis: Axis) -> list[Column]:
    """Return the lines of these panels, panel by panel, with the steps of the run one after another."""
    positions = {panel.key: place for place, panel in enumerate(panels)}
    lines: dict[tuple[str, str], list[tuple[Floats, Floats]]] = {}
    tables = _tables(run, {panel.source for panel in panels}, nodes.panels_to_read(positions), axis)
    parts = means_of(run, panels, axis)
    tables |= {key: nodes.with_nodes(tables[key], parts[key[0]]) for key in tables if key[1] == nodes.SOURCE and parts}
    for (step, source), table in tables.items():
        t = table["t"] + axis.offsets()[step]
        for name, values in table.items():
            if _shown(source, name, positions):
                lines.setdefault((source, name), []).append((t, values))
    columns = [_column(source, name, parts) for (source, name), parts in lines.items()]
    return sorted(columns, key=lambda column: positions[column.panel.key])


def means_of(run: Run, panels: Iterable[Panel], axis: Axis) -> dict[str, nodes.Parts]:
    """Return step -> columns that are computed from others, and from which; {} if no panel shows one."""
    if not any(panel.key == nodes.KEY for panel in panels):
        return {}
    return {step: nodes.parts_of(facts) for step, facts in facts_of(run, axis.offsets()).items()}


def _shown(source: str, name: str, keys: Collection[str]) -> bool:
    panel = panel_of(source, name)
    return panel is not None and panel.key in keys


def _column(source: str, name: str, parts: list[tuple[Floats, Floats]]) -> Column:
    """Join the steps in one line, with a gap between them."""
    panel = panel_of(source, name)
    assert panel  # noqa: S101 - for the type checker: only what a panel shows is read
    t, values = parts[0]
    for later, more in parts[1:]:
        t = np.concatenate([t, *(edges(t[-1:], later[:1]) if len(t) and len(later) else ()), later])
        values = np.concatenate([values, np.full(len(t) - len(values) - len(more), np.nan), more])
    return Column(source, name, panel.unit, panel, t, values * factor(source, name))


def _tables(run: Run, sources: Collection[str], keys: Collection[str], axis: Axis) -> dict[Source, Table]:
    """Return the samples of each source, in the order of the steps."""
    # Read first: samples that are folded meanwhile are then read twice and dropped, instead of being missed.
    new = {} if run.ingested_at else _new(run, sources)
    stored = _stored(run, sources, keys, axis)
    joined = {}
    for step, offset in axis.offsets().items():
        for source in sorted(sources):
            parts = [tables[step, source] for tables in (stored, new) if (step, source) in tables]
            if parts:
                joined[step, source] = _with_gaps(_cut(_joined(parts), *axis.range_from(offset)))
    return joined


def _new(run: Run, sources: Collection[str]) -> dict[Source, Table]:
    """Return samples that are still events: those of the last minutes, at most the newest MOST_NEW_VALUES values."""
    new_samples: dict[Source, list[dict[str, float]]] = {}
    # Up to the state of the run that was read; a page adds later ones.
    events = run.event_log.filter(kind="sample", seq__lte=run.last_seq, data__source__in=list(sources)).order_by("-seq")
    for data in _newest(events.values_list("data", flat=True), lambda data: len(data["values"])):
        new_samples.setdefault((data["step"], data["source"]), []).append(data)
    elsewhere = run.event_logs_of_parts.filter(kind="sample", data__source__in=list(sources)).order_by("-seq")
    for event in _newest(elsewhere.select_related("part"), lambda event: len(event.data["values"])):
        if event.part:
            new_samples.setdefault((part_step(event.part.name), event.data["source"]), []).append(event.data)
    return {key: table_of(listed) for key, listed in new_samples.items()}


def _newest(events: QuerySet[Any, T], size: Callable[[T], int]) -> list[T]:
    """Return the first of `events`, which are in reverse order, in normal order."""
    newest, values = list[T](), 0
    for event in events[:MOST_NEW].iterator(chunk_size=CHUNK):
        newest.append(event)
        values += size(event)
        if values >= MOST_NEW_VALUES:
            break
    return newest[::-1]


def _stored(run: Run, sources: Collection[str], keys: Collection[str], axis: Axis) -> dict[Source, Table]:
    """Return only the blocks of the columns and times that are shown."""
    listed = list(run.series.filter(source__in=sources, step__in=axis.offsets()))
    names = {
        series.pk: {"t", *(name for name in series.columns if _shown(series.source, name, keys))} for series in listed
    }
    blocks: dict[int, list[Block]] = {series.pk: [] for series in listed}
    shown_columns = sorted({name for each in names.values() for name in each})
    stored = run.in_its_months(Block.objects.filter(_in_window(listed, axis), columns__overlap=shown_columns))
    for block in stored.order_by("series", "first"):
        blocks[block.series_id].append(block)
    return {
        (series.step, series.source): assemble(blocks[series.pk], names[series.pk])
        for series in listed
        if blocks[series.pk]
    }


def _in_window(listed: list[Series], axis: Axis) -> Q:
    if axis.begin is None and axis.end is None:
        return Q(series__in=listed)
    parts, offsets = Q(pk=None), axis.offsets()
    for series in listed:
        begin, end = axis.range_from(offsets[series.step])
        parts |= Q(series=series, begin__lte=end, end__gte=begin)
    return parts


def values_of(series: Series, begin: float | None, end: float | None) -> Table:
    """Return all columns of a stored series, in the seconds of its step."""
    low, high = Axis((), begin, end).range_from(0.0)
    stored = series.run.in_its_months(series.blocks.filter(end__gte=low, begin__lte=high))
    table = assemble(stored.order_by("first"), series.columns)
    empty = np.full(len(table["t"]), np.nan)
    inside = (table["t"] >= low) & (table["t"] <= high)
    return {name: table.get(name, empty)[inside] for name in series.columns}


def assemble(blocks: Iterable[Block], names: Collection[str]) -> Table:
    """Join blocks of one series into whole columns, t first; nan if a column has no block."""
    blocks = list(blocks)
    begin = min((block.first for block in blocks), default=0)
    size = max((block.first + block.samples for block in blocks), default=0) - begin
    table = {"t": np.full(size, np.nan)}
    for block in blocks:
        here = slice(block.first - begin, block.first - begin + block.samples)
        for name, values in block.unpack(names).items():
            table.setdefault(name, np.full(size, np.nan))[here] = values
    return table


def _joined(parts: list[Table]) -> Table:
    """Append new samples to stored ones, from the end of those on."""
    if len(parts) == 1:
        return parts[0]
    stored, new = parts
    later = new["t"] > np.nanmax(stored["t"])
    empty = np.full(len(stored["t"]), np.nan), np.full(int(later.sum()), np.nan)
    return {
        name: np.concatenate([stored.get(name, empty[0]), new[name][later] if name in new else empty[1]])
        for name in dict.fromkeys([*stored, *new])
    }


def _cut(table: Table, begin: float, end: float) -> Table:
    """Return the part from `begin` to `end`, with a sample on either side to which lines lead."""
    inside = np.flatnonzero((table["t"] >= begin) & (table["t"] <= end))
    if not len(inside):
        return {name: values[:0] for name, values in table.items()}
    part = slice(max(0, inside[0] - 1), inside[-1] + 2)
    present = ~np.isnan(table["t"][part])
    return {name: values[part][present] for name, values in table.items()}


def _with_gaps(table: Table) -> Table:
    """Insert a missing sample where none was taken for a while, so that no line crosses the gap."""
    at = holes(table["t"])
    if not len(at):
        return table
    t, twice = table["t"], np.repeat(at, 2)
    between = np.stack(edges(t[at - 1], t[at]), axis=1).ravel()
    return {name: np.insert(values, twice, between if name == "t" else np.nan) for name, values in table.items()}
