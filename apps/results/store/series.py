"""The panels of a run's chart, each with columns of one unit. samples.py reads their values. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from agents.collectors import COLLECTORS
from agents.wire.columns import Column
from agents.workloads import SAMPLES, WORKLOADS
from apps.campaigns.execution.live import throughput
from apps.campaigns.models import Run
from apps.results.runs import nodes
from apps.results.runs.time_axis import PART, part_step

# Units of the kernel and of PostgreSQL that are shown in larger ones: unit -> (unit shown, factor).
SHOWN_AS = {"kB": ("GiB", 1 / 1024**2), "B/s": ("MB/s", 1e-6), "kB/s": ("MiB/s", 1 / 1024)}


@dataclass(frozen=True)
class Panel:
    """A chart on the time axis. `title`: its content and unit."""

    key: str
    source: str
    group: str
    unit: str
    shown: bool
    heat: bool
    stacked: bool = False

    @property
    def title(self) -> str:
        return self.group if self.unit == self.group else f"{self.group} ({self.unit})"


@cache
def declared(source: str, name: str) -> Column | None:
    """Return a column as its collector declares it; None if a chart cannot show it."""
    if source in SAMPLES:
        return SAMPLES[source].get(name)
    made = nodes.column(source, name)
    if made:
        return made
    return COLLECTORS[source].column(name) if source in COLLECTORS else None


def panel_of(source: str, name: str) -> Panel | None:
    column = declared(source, name)
    if column is None:
        return None
    unit = SHOWN_AS.get(column.unit, (column.unit, 1.0))[0]
    return Panel(f"{source}.{column.group}", source, column.group, unit, column.shown, column.heat, column.stacked)


def panels_of(run: Run) -> list[Panel]:
    """Return every panel for which a run has samples; while it is active, those that its sources declare."""
    sources, steps = _stored(run) if run.ingested_at else _declared(run)
    if nodes.SOURCE in sources and any(map(nodes.parts_of, facts_of(run, steps).values())):
        sources[nodes.SOURCE].append(nodes.ANY)
    panels = (panel_of(source, name) for source in sources for name in sources[source])
    return sorted({panel.key: panel for panel in panels if panel}.values(), key=_place)


Sources = tuple[dict[str, list[str]], set[str]]  # source -> its columns, in any step; and the steps


def _stored(run: Run) -> Sources:
    sources, steps = dict[str, list[str]](), set[str]()
    for step, source, columns in run.series.order_by("step").values_list("step", "source", "columns"):
        sources.setdefault(source, []).extend(columns)
        steps.add(step)
    return sources, steps


def _declared(run: Run) -> Sources:
    parts = list(run.parts.all())
    loads = (WORKLOADS[step["kind"]] for step in run.spec["steps"] if step["kind"] in WORKLOADS)
    sources = {source: list(columns) for load in loads for source, columns in load.samples.items()}
    names = {name for spec in (run.spec, *(part.spec for part in parts)) for name in spec["collect"]["sources"]}
    sources |= {name: list(COLLECTORS[name].columns) for name in names if name in COLLECTORS}
    return sources, {"", *(part_step(part.name) for part in parts)}


def facts_of(run: Run, steps: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return step -> the facts of its host: the run's own, or that of a part."""
    steps, elsewhere = list(steps), dict[str, Any]()
    if any(step.startswith(PART) for step in steps):
        elsewhere = {part_step(part.name): part.facts for part in run.parts.select_related("facts")}
    facts_by_step = {step: elsewhere.get(step, run.facts) for step in steps}
    return {step: facts.data if facts else {} for step, facts in facts_by_step.items()}


def chosen(panels: Iterable[Panel], keys: Collection[str]) -> list[Panel]:
    """Return the panels with these keys, by default the `shown` ones."""
    return [panel for panel in panels if (panel.key in keys if keys else panel.shown)]


def factor(source: str, name: str) -> float:
    """Return the factor from a stored number to the unit of its panel."""
    column = declared(source, name)
    return SHOWN_AS.get(column.unit, ("", 1.0))[1] if column else 1.0


def _place(panel: Panel) -> tuple[int, int]:
    """Return the sort key: panels of the load generator first, then sources and groups in the order of the
    catalogue."""
    known = COLLECTORS[panel.source].columns if panel.source in COLLECTORS else SAMPLES[panel.source]
    groups = [column.group for column in known.values()]
    group = nodes.BESIDE if panel.key == nodes.KEY else panel.group
    return [*SAMPLES, *COLLECTORS].index(panel.source), groups.index(group)


def shown_sample(seq: int, data: dict[str, Any]) -> dict[str, Any]:
    """Return a live sample in the units of the charts, without columns that have no number. A chart with this `seq` or
    a later one has it already."""
    source = data["source"]
    numbers = {name: value for name, value in data["values"].items() if value is not None and declared(source, name)}
    values = {name: value * factor(source, name) for name, value in numbers.items()}
    rate = throughput(source, data["values"])
    where = {name: data[name] for name in ("step", "source", "t")}
    return {**where, "seq": seq, "values": values, "throughput": asdict(rate) if rate else None}
