"""The mean of every collector column over one measured step, and its cost per transaction. Only reads (SELECT).

If the load runs on another host than PostgreSQL, the collectors of PostgreSQL's host count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from agents.collectors import COLLECTORS
from agents.collectors.per_transaction import PER_TRANSACTION, PerTransaction
from apps.campaigns.models import Run, RunPart
from apps.results.models import Measurement, Series, StepMeans
from apps.results.runs import counters
from apps.results.runs.time_axis import Step, part_step, steps_of
from apps.results.store import samples

SERVER = part_step(RunPart.Role.SERVER)
TRANSACTIONS = "transactions"
POSTGRESQL, WAIT = "postgresql", "wait."
# Parts of the machine whose numbers are summed; temperatures are not.
_PARTS, _NO_SUM = re.compile(r"<(cpu|node|device|interface)>"), "<zone>"
_BLOCKS = 64  # read at a time: a run may last for days
Means = dict[str, float]


def step_means(run: Run, step: str) -> StepMeans | None:
    """Return the means of one measured step, unsaved. None if no collector ran, or if the end of the step is
    unknown."""
    spans = {each.name: each for each in steps_of(run)}
    span = spans.get(step)
    if span is None or span.end is None or span.end <= span.begin:
        return None
    seconds = span.end - span.begin
    data = {source: means for source, means in _by_source(run, spans, step, seconds) if means}
    return StepMeans(run=run, step=step, seconds=seconds, data=data) if data else None


def per_transaction(means: StepMeans, transactions: float) -> list[Measurement]:
    """Return the figures per transaction of one measured step, unsaved, without those whose collector did not run."""
    if transactions <= 0:
        return []
    rows = []
    for figure in PER_TRANSACTION.values():
        grown = _growth(means, figure)
        if grown is not None:
            row = Measurement(run=means.run, step=means.step, name=figure.name, value=grown / transactions)
            row.unit, row.better, row.definition = figure.unit, figure.better, figure.definition
            rows.append(row)
    return rows


def _growth(means: StepMeans, figure: PerTransaction) -> float | None:
    """Return the growth of its columns during the step, in units of the figure; None if there is no such column."""
    own = [mean for name, mean in means.data.get(figure.collector, {}).items() if figure.uses(name)]
    return figure.factor * means.seconds * sum(own) if own else None


def _by_source(run: Run, spans: Mapping[str, Step], step: str, seconds: float) -> Iterator[tuple[str, Means]]:
    place = SERVER if SERVER in spans else step
    offset = spans[step].begin - spans[place].begin
    for series in run.series.filter(step=place, source__in=COLLECTORS):
        means = _means(series, offset, seconds)
        if series.source == POSTGRESQL:
            totals = _totals(run, step) if place == step else None
            if totals:
                means |= {name: totals.get(name, 0.0) / seconds for name in means if _counts(name)}
        yield series.source, _summed(series.source, means)


def _means(series: Series, offset: float, seconds: float) -> Means:
    """Return column -> mean from `offset` on, each sample weighted by the time since the sample before it. Columns
    without samples are left out."""
    t = samples.assemble(series.blocks.filter(group="").order_by("first"), {"t"})["t"] - offset
    lengths = np.diff(np.maximum(t, 0.0), prepend=0.0) * ((t >= 0) & (t <= seconds))
    sums, known = dict[str, float](), dict[str, float]()
    for block in series.blocks.exclude(group="").order_by("first").iterator(chunk_size=_BLOCKS):
        own = lengths[block.first : block.first + block.samples]
        for name, values in block.unpack(block.columns).items():
            finite = np.isfinite(values)  # missing samples do not count
            sums[name] = sums.get(name, 0.0) + float((values[finite] * own[finite]).sum())
            known[name] = known.get(name, 0.0) + float(own[finite].sum())
    if series.source == POSTGRESQL:
        known = _since_the_first(known)
    return {name: sums[name] / known[name] for name in sums if known[name] > 0}


def _since_the_first(known: Means) -> Means:
    """Set samples before the first one to 0: a counter that has not grown and an event without waits have no
    samples."""
    longest = {kind: max((known[name] for name in known if _kind(name) == kind), default=0.0) for kind in (WAIT, "")}
    return {name: longest.get(_kind(name), seconds) for name, seconds in known.items()}


def _kind(name: str) -> str:
    """Return the kind of PostgreSQL columns that are sampled together: waits or counters. A gauge is sampled
    separately."""
    return WAIT if name.startswith(WAIT) else "" if _counts(name) else name


def _counts(name: str) -> bool:
    column = COLLECTORS[POSTGRESQL].column(name)
    return column is not None and not column.gauge


def _summed(source: str, means: Means) -> Means:
    """Return the sums over parts of the machine, under their declared names."""
    summed: Means = {}
    for name, mean in means.items():
        declared = COLLECTORS[source].declared(name)
        if _NO_SUM not in declared:
            shown = declared if _PARTS.search(declared) else name
            summed[shown] = summed.get(shown, 0.0) + mean
    return {name: float(f"{mean:.7g}") for name, mean in summed.items()}


def _totals(run: Run, step: str) -> Mapping[str, float] | None:
    """Return the exact growth by column, if PostgreSQL's collector wrote it. A column that is missing there did not
    grow."""
    counted = counters.of_step(run, step)
    return counted["views"] if counted else None
