"""SELECT only: what one transaction of a step cost, from the columns of collectors and the transactions of the load.

Where the load runs on another host than PostgreSQL, the collectors of PostgreSQL's host count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from agents.collectors.per_transaction import PER_TRANSACTION, PerTransaction
from apps.campaigns.models import Run, RunPart
from apps.results.models import Measurement, Series
from apps.results.runs.timeline import Step, part_step, steps_of
from apps.results.store import samples
from apps.results.store.fold import Table
from stats.model import Floats

TRANSACTIONS = "transactions"
SERVER = part_step(RunPart.Role.SERVER)


@dataclass(frozen=True)
class Seen:
    """What one collector saw of a step that lasted so many seconds. `totals`: exact growth by column, where its
    collector told one; a column that is missing there did not grow."""

    columns: list[str]
    seconds: float
    table: Table
    totals: Mapping[str, float] | None = None

    def growth(self, figure: PerTransaction) -> float | None:
        """By how much its columns grew, in units of the figure; None where the collector has no such column."""
        own = [name for name in self.columns if figure.uses(name)]
        if not own:
            return None
        if self.totals is not None:
            return figure.factor * sum(self.totals.get(name, 0.0) for name in own)
        rates = [mean_rate(self.table["t"], self.table[name]) for name in own if name in self.table]
        known = [rate for rate in rates if rate is not None]
        return figure.factor * self.seconds * sum(known) if known else None


def mean_rate(t: Floats, rates: Floats) -> float | None:
    """The mean of rates, each of which holds since the sample before it (at first since 0); None without any."""
    lengths, known = np.diff(t, prepend=0.0), np.isfinite(rates)
    total = float(lengths[known].sum())
    return float((rates * lengths)[known].sum()) / total if total > 0 else None


def per_transaction(run: Run, step: str, transactions: float) -> list[Measurement]:
    """Of one measured step; nothing is saved. Figures whose collector did not run are missing."""
    spans = {each.name: each for each in steps_of(run)}
    if transactions <= 0 or step not in spans or spans[step].end is None:
        return []
    seen = dict(_seen(run, spans, step))
    found = []
    for figure in PER_TRANSACTION.values():
        growth = seen[figure.collector].growth(figure) if figure.collector in seen else None
        if growth is not None:
            row = Measurement(run=run, step=step, name=figure.name, value=growth / transactions, unit=figure.unit)
            row.better, row.definition = figure.better, figure.definition
            found.append(row)
    return found


def _seen(run: Run, spans: Mapping[str, Step], step: str) -> Iterator[tuple[str, Seen]]:
    """(collector, what it saw), read from the host that PostgreSQL ran on."""
    place = SERVER if SERVER in spans else step
    offset = spans[step].begin - spans[place].begin
    seconds = (spans[step].end or 0.0) - spans[step].begin
    totals = _totals(run, step) if place == step else None
    sources = {figure.collector for figure in PER_TRANSACTION.values()}
    for series in run.series.filter(step=place, source__in=sources):
        table = _cut(_table(series), offset, seconds)
        yield series.source, Seen(series.columns, seconds, table, totals if series.source == "postgresql" else None)


def _table(series: Series) -> Table:
    used = {name for name in series.columns if any(each.uses(name) for each in PER_TRANSACTION.values())}
    return samples.assemble(series.blocks.order_by("first"), {"t", *used})


def _cut(table: Table, offset: float, seconds: float) -> Table:
    """The samples of this part of the time, t from its beginning."""
    t = table["t"] - offset
    inside = (t >= 0) & (t <= seconds)
    return {name: (t if name == "t" else values)[inside] for name, values in table.items()}


def _totals(run: Run, step: str) -> Mapping[str, float] | None:
    file = run.artefacts.filter(path=f"out/{step}/postgresql.json").exclude(content=None).first()
    return None if file is None else json.loads(bytes(file.content or b"{}")).get("views")
