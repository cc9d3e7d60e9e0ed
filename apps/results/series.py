"""SELECT only: the panels of a run's chart, each of columns with a unit in common; samples.py reads what they show."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from agents.collectors import COLLECTORS, columns
from agents.collectors import Column as Declared
from apps.campaigns.models import Run

WAYS = ("read", "write", "trim")
# What load generators tell themselves, shown above what the host did meanwhile.
LOAD: dict[str, dict[str, Declared]] = {
    "pgbench": {
        **columns("tps", "tps", {"tps": "transactions"}, better="higher", shown=True),
        **columns(
            "latency",
            "ms",
            {"latency_ms": "mean of the interval", "stddev_ms": "its standard deviation"},
            better="lower",
            shown=True,
        ),
    },
    "latency": columns(
        "latency percentiles",
        "ms",
        {f"p{each}_ms": f"{each} % of the transactions of the interval were faster" for each in (50, 95, 99)},
        better="lower",
        shown=True,
    ),
    "fio": {
        **columns(
            "bandwidth", "kB/s", {f"{way}_bw": f"of {way}s, all jobs" for way in WAYS}, better="higher", shown=True
        ),
        **columns("IOPS", "IOPS", {f"{way}_iops": f"of {way}s, all jobs" for way in WAYS}, better="higher", shown=True),
        **columns(
            "latency", "ms", {f"{way}_lat": f"of {way}s, mean of the jobs" for way in WAYS}, better="lower", shown=True
        ),
    },
}
# Units of the kernel and of PostgreSQL that people read in larger ones: unit -> (unit shown, factor).
SHOWN_AS = {"kB": ("GiB", 1 / 1024**2), "B/s": ("MB/s", 1e-6), "kB/s": ("MiB/s", 1 / 1024)}


@dataclass(frozen=True)
class Panel:
    """A chart of its own on the time axis; `title` says what, with the unit."""

    key: str
    source: str
    group: str
    unit: str
    shown: bool

    @property
    def title(self) -> str:
        return self.group if self.unit == self.group else f"{self.group} ({self.unit})"


@cache
def declared(source: str, name: str) -> Declared | None:
    """What a column is, as its collector declares it; None for what a chart cannot show."""
    if source in LOAD:
        return LOAD[source].get(name)
    return COLLECTORS[source].column(name) if source in COLLECTORS else None


def panel_of(source: str, name: str) -> Panel | None:
    column = declared(source, name)
    if column is None:
        return None
    unit = SHOWN_AS.get(column.unit, (column.unit, 1.0))[0]
    return Panel(f"{source}.{column.group}", source, column.group, unit, column.shown)


def panels_of(run: Run) -> list[Panel]:
    """Every panel that a run has samples for; while it goes on, those that its sources declare."""
    if run.ingested_at:
        told = dict(run.series.order_by("step").values_list("source", "columns"))
    else:
        kinds = {step["kind"] for step in run.spec["steps"]}
        told = {source: list(LOAD[source]) for source in kinds & LOAD.keys()}
        specs = [run.spec, *(part.spec for part in run.parts.all())]
        sources = {name for spec in specs for name in spec["collect"]["sources"]}
        told |= {name: list(COLLECTORS[name].columns) for name in sources if name in COLLECTORS}
    found = (panel_of(source, name) for source in told for name in told[source])
    return sorted({panel.key: panel for panel in found if panel}.values(), key=_place)


def chosen(panels: Iterable[Panel], keys: Collection[str]) -> list[Panel]:
    """Those with these keys, or those that are shown unasked."""
    return [panel for panel in panels if (panel.key in keys if keys else panel.shown)]


def factor(source: str, name: str) -> float:
    """What a stored number is multiplied with to be shown in the unit of its panel."""
    column = declared(source, name)
    return SHOWN_AS.get(column.unit, ("", 1.0))[1] if column else 1.0


def _place(panel: Panel) -> tuple[int, int]:
    """The load generator's panels stand first, then the sources as their catalogue has them, and its groups as well."""
    known = COLLECTORS[panel.source].columns if panel.source in COLLECTORS else LOAD[panel.source]
    groups = [column.group for column in known.values()]
    return [*LOAD, *COLLECTORS].index(panel.source), groups.index(panel.group)


def shown_sample(seq: int, data: dict[str, Any]) -> dict[str, Any]:
    """A live sample in the units of the charts; a chart whose `seq` is not below this one's has it already."""
    source = data["source"]
    values = {name: value * factor(source, name) for name, value in data["values"].items() if declared(source, name)}
    return {**data, "seq": seq, "values": values}
