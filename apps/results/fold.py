"""Samples live as events while they are new; here they become columns. Each batch is moved in a transaction of its own,
so that nothing is lost or counted twice wherever it dies, and a run that lasts for days never holds a day of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from django.db import transaction
from numpy.typing import NDArray

from apps.campaigns.models import Run
from apps.results import codec
from apps.results.models import Block, Series
from apps.results.series import panel_of

BATCH = 8000  # events at a time: their JSON takes some 20 MB
FULL = 4096  # samples of a block
# While a run goes on, its newest events stay: pages that follow it ask for them.
TAIL = 1000
# So many more are worth to be folded: those of some three minutes.
MANY = 2000
Table = dict[str, NDArray[np.float64]]


def fold(run: Run, *, leave: int = 0) -> int:
    """Move the samples that came before the newest `leave` events; answers how many."""
    upto = run.last_seq - leave if leave else None
    moved = last = _batch(run, upto)
    while last == BATCH:
        last = _batch(run, upto)
        moved += last
    return moved


@transaction.atomic
def _batch(run: Run, upto: int | None) -> int:
    Run.objects.select_for_update(no_key=True).get(pk=run.pk)  # one at a time; new events may come meanwhile
    samples = run.events.filter(kind="sample").order_by("seq")
    rows = list((samples.filter(seq__lte=upto) if upto else samples).values_list("seq", "data")[:BATCH])
    if not rows:
        return 0
    told: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _, data in rows:
        told.setdefault((data["step"], data["source"]), []).append(data)
    for (step, source), listed in told.items():
        append(run, step, source, table_of(listed))
    samples.filter(seq__lte=rows[-1][0]).delete()
    return len(rows)


def table_of(samples: Iterable[dict[str, Any]]) -> Table:
    """Events of one source as columns, t first; nan where one has no number."""
    rows = [{"t": data["t"], **data["values"]} for data in samples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.array([row.get(name, np.nan) for row in rows], dtype=np.float64) for name in names}


def append(run: Run, step: str, source: str, table: Table) -> None:
    """Further samples of a source, in the caller's transaction."""
    series, _ = Series.objects.get_or_create(run=run, step=step, source=source, defaults={"columns": ["t"]})
    unfinished = {block.group: block for block in series.blocks.filter(samples__lt=FULL)}
    groups: dict[str, list[str]] = {}
    for name in table:
        groups.setdefault(group_of(source, name), []).append(name)
    for group, names in groups.items():
        _extend(series, group, unfinished.get(group), {name: table[name] for name in names}, table["t"])
    series.columns = list(dict.fromkeys([*series.columns, *table]))
    series.samples += len(table["t"])
    series.save(update_fields=["columns", "samples"])


def group_of(source: str, name: str) -> str:
    """Which columns are stored together: those of a panel; the times alone."""
    panel = panel_of(source, name)
    return "" if name == "t" else panel.group if panel else "undeclared"


def _extend(series: Series, group: str, last: Block | None, table: Table, t: NDArray[np.float64]) -> None:
    """Fill the last block of a group, when it reaches to the end of the series, and write further ones."""
    first = series.samples
    if last is not None and last.first + last.samples == first:
        known, begin = last.unpack(last.columns), last.begin
        names = list(dict.fromkeys([*last.columns, *table]))
        empty = np.full(last.samples, np.nan), np.full(len(t), np.nan)
        table = {name: np.concatenate([known.get(name, empty[0]), table.get(name, empty[1])]) for name in names}
        t, first = np.concatenate([np.full(last.samples, begin), t]), last.first
    for at in range(0, len(t), FULL):
        here = slice(at, at + FULL)
        _write(series, group, first + at, {name: values[here] for name, values in table.items()}, t[here])


def _write(series: Series, group: str, first: int, table: Table, t: NDArray[np.float64]) -> None:
    told = {"columns": list(table), "samples": len(t), "begin": float(t[0]), "end": float(t[-1])}
    packed = codec.pack(list(table.values()))
    Block.objects.update_or_create(series=series, group=group, first=first, defaults={**told, "packed": packed})
