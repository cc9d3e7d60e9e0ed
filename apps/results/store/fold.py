"""Move samples from events to columns.

Each batch is moved in its own transaction, so that nothing is lost or counted twice if a worker dies, and a run that
lasts for days never has a day of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import QuerySet
from numpy.typing import NDArray

from apps.campaigns.models import Run
from apps.infrastructure import months
from apps.results.models import Block, Series
from apps.results.runs.time_axis import part_step
from apps.results.store import codec
from apps.results.store.series import panel_of

BATCH, CHUNK = 8000, 500  # events at a time: their JSON takes some 20 MB
BATCH_VALUES = 500_000
FULL = 4096  # samples of a block
# Limits for a run: a host with 1,024 CPUs has some 2,000 columns, 40 steps with 20 sources have 800 series.
MAX_COLUMNS, MAX_SERIES = 4096, 2000
# While a run is active, its newest events stay, because its viewers request them.
TAIL = 1000
# Least number of further events worth moving: some three minutes.
MANY = 2000
PLACE, CONTENT = ("series", "group", "first", "month"), ("columns", "samples", "begin", "end", "packed")
Table = dict[str, NDArray[np.float64]]


def fold(run: Run, *, leave: int = 0) -> int:
    """Move the samples before the newest `leave` events. Returns how many."""
    upto = run.last_seq - leave if leave else None
    moved = _moved(run, run.event_log, upto)
    for part in run.parts.all():
        moved += _moved(run, part.event_log, part.last_seq - leave if leave else None, part_step(part.name))
    return moved


def _moved(run: Run, events: Any, upto: int | None, step: str = "") -> int:
    moved, more = 0, True
    while more:
        batch, more = _batch(run, events, upto, step)
        moved += batch
    return moved


@transaction.atomic
def _batch(run: Run, events: Any, upto: int | None, named: str) -> tuple[int, bool]:
    """Move a batch of the run's own events, or of a part's, whose samples have their own step. Returns (samples
    moved, whether there are more)."""
    Run.objects.select_for_update(no_key=True).get(pk=run.pk)  # one worker at a time; new events may arrive meanwhile
    samples = events.filter(kind="sample").order_by("seq")
    rows, more = _first((samples.filter(seq__lte=upto) if upto else samples).values_list("seq", "data")[:BATCH])
    if not rows:
        return 0, False
    by_source: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _, data in rows:
        by_source.setdefault((named or data["step"], data["source"]), []).append(data)
    for (step, source), listed in by_source.items():
        append(run, step, source, table_of(listed))
    samples.filter(seq__lte=rows[-1][0]).delete()
    # A run with very many samples needs several attempts to be read (ingest.py). This one is worth it.
    Run.objects.filter(pk=run.pk, read_attempts__gt=1).update(read_attempts=1)
    return len(rows), more


def _first(samples: QuerySet[Any, tuple[int, dict[str, Any]]]) -> tuple[list[tuple[int, dict[str, Any]]], bool]:
    """Return as many samples as have BATCH_VALUES values together, and whether there may be more: samples may be
    large."""
    rows, values = list[tuple[int, dict[str, Any]]](), 0
    for seq, data in samples.iterator(chunk_size=CHUNK):
        rows.append((seq, data))
        values += len(data["values"])
        if values >= BATCH_VALUES:
            return rows, True
    return rows, len(rows) == BATCH


def table_of(samples: Iterable[dict[str, Any]]) -> Table:
    """Return the events of one source as columns, t first; nan if one has no number."""
    rows = [{"t": data["t"], **data["values"]} for data in samples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    _bound(len(names), MAX_COLUMNS, "columns of one source")
    return {name: np.array([row.get(name, np.nan) for row in rows], dtype=np.float64) for name in names}


def _bound(count: int, most: int, what: str) -> None:
    if count > most:
        raise ValueError(f"{count:,} {what}, at most {most:,}")


def append(run: Run, step: str, source: str, table: Table) -> None:
    """Append samples of a source, in the caller's transaction."""
    series, is_new = Series.objects.get_or_create(run=run, step=step, source=source, defaults={"columns": ["t"]})
    if is_new:
        _bound(run.series.count(), MAX_SERIES, "series")
    unfinished = {block.group: block for block in series.blocks.filter(samples__lt=FULL)}
    groups: dict[str, list[str]] = {}
    for name in table:
        groups.setdefault(group_of(source, name), []).append(name)
    blocks: list[Block] = []
    for group, names in groups.items():
        blocks += _blocks(series, group, unfinished.get(group), {name: table[name] for name in names}, table["t"])
    for block in blocks:
        last = unfinished.get(block.group)
        # A block that is continued stays where it is, although release 0.2.0 knows no months.
        block.month = last.month if last and last.first == block.first else months.month_of(run.started_at)
    Block.objects.bulk_create(blocks, update_conflicts=True, unique_fields=PLACE, update_fields=CONTENT)
    series.columns = list(dict.fromkeys([*series.columns, *table]))
    _bound(len(series.columns), MAX_COLUMNS, "columns of one source")
    series.samples += len(table["t"])
    series.save(update_fields=["columns", "samples"])


def group_of(source: str, name: str) -> str:
    """Return the group of columns that are stored together: those of a panel, or the times only."""
    panel = panel_of(source, name)
    return "" if name == "t" else panel.group if panel else "undeclared"


def _blocks(series: Series, group: str, last: Block | None, table: Table, t: NDArray[np.float64]) -> Iterator[Block]:
    """Yield the last block of a group, extended if it reaches to the end of the series, and further blocks."""
    first = series.samples
    if last is not None and last.first + last.samples == first:
        known, before = last.unpack(last.columns), last.samples
        none = np.full(before, np.nan), np.full(len(t), np.nan)
        names = dict.fromkeys([*last.columns, *table])
        table = {name: np.concatenate([known.get(name, none[0]), table.get(name, none[1])]) for name in names}
        t, first = np.concatenate([np.full(before, last.begin), t]), last.first
    for at in range(0, len(t), FULL):
        here = slice(at, at + FULL)
        packed = codec.pack([values[here] for values in table.values()])
        block = Block(series=series, group=group, first=first + at, columns=list(table), packed=packed)
        block.samples, block.begin, block.end = len(t[here]), float(t[here][0]), float(t[here][-1])
        yield block
