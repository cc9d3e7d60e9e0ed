"""The list of all charts on a run's page, used by the page, by URLs and by saved views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from apps.campaigns.models import Run
from apps.results import charts
from apps.results.charts import shades
from apps.results.charts.themes import Figure, Theme
from apps.results.models import Measurement
from apps.results.runs import latencies, spreads
from apps.results.runs.time_axis import Axis
from apps.results.store import samples, series


@dataclass(frozen=True)
class Available:
    """What a run has to draw: its output files, as (step, name), and its measurements."""

    files: Sequence[tuple[str, str]]
    measurements: Sequence[Measurement]

    def steps_with(self, *names: str) -> list[str]:
        """Return the steps that have one of these files."""
        return list(dict.fromkeys(step for step, name in self.files if name in names))


@dataclass(frozen=True)
class Drawing:
    """How a chart is drawn: step, time, theme and width. `panels`: of a chart with panels; empty for the default
    ones."""

    step: str
    axis: Axis
    theme: Theme
    width: int
    panels: Sequence[str] = ()


@dataclass(frozen=True)
class RunChart:
    """One chart. `steps`: which steps of a run have it; one that is not `per_step` shows them all at once. `draw`
    answers None where there is nothing. `figure` and `csv` are URL names, of which `figure` takes the chart's name
    where it is that of all charts. `heard`: measurements with this in their name are read out beside `label`."""

    name: str
    title: str
    steps: Callable[[Available], list[str]]
    draw: Callable[[Run, Drawing], Figure | None]
    label: str
    empty: str
    per_step: bool = False
    over_time: bool = False
    low: bool = False
    figure: str = "run_latency"
    csv: str = ""
    help: str = ""
    heard: str = ""

    @property
    def args(self) -> tuple[str, ...]:
        return (self.name,) if self.figure == "run_latency" else ()


@dataclass(frozen=True)
class ShownChart:
    """A chart on a page, of one step or of all."""

    chart: RunChart
    id: str
    title: str
    label: str
    figure: str
    csv: str
    chosen: str


def available(run: Run, measurements: Sequence[Measurement]) -> Available:
    """Return what the run has to draw. One query."""
    paths = run.artefacts.filter(path__startswith="out/").exclude(content=None).order_by("path")
    parts = [path.split("/") for path in paths.values_list("path", flat=True)]
    return Available([(part[1], part[2]) for part in parts if len(part) == 3], measurements)


def charts_of_run(run: Run, has: Available, part: dict[str, str]) -> list[ShownChart]:
    """Return every chart that a run has, step by step if it belongs to a step. `part`: the time that is shown."""
    shown_charts = []
    for chart in RUN_CHARTS:
        steps = chart.steps(has)
        for place, step in enumerate(steps if chart.per_step else steps[:1], 1):
            alone = not chart.per_step or len(steps) == 1
            chosen = urlencode({"step": step}) if chart.per_step else ""
            query = "&".join(filter(None, (chosen, urlencode(part) if chart.over_time else "")))
            shown_charts.append(
                ShownChart(
                    chart,
                    f"run-{chart.name}-{place}",
                    chart.title if alone else f"{chart.title}, {step}",
                    chart.label + _heard(chart, has, step),
                    _with(reverse(chart.figure, args=[run.pk, *chart.args]), query),
                    _with(reverse(chart.csv, args=[run.pk]), chosen) if chart.csv else "",
                    chosen,
                )
            )
    return shown_charts


def _heard(chart: RunChart, has: Available, step: str) -> str:
    rows = [row for row in has.measurements if chart.heard and row.step == step and chart.heard in row.name]
    return "".join(f"; {row.name} {row.value:.5g} {row.unit}" for row in rows)


def _with(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def _statements(has: Available) -> list[str]:
    return ["all"] if any("statement:" in row.name for row in has.measurements) else []


def _draw_panels(run: Run, drawing: Drawing) -> Figure:
    """Draw panels with the values that a page needs to add newer samples: the number of the newest event, the start of
    each step, and the rows that are means.

    A figure without panels has no data."""
    panels, axis = series.chosen(series.panels_of(run), drawing.panels), drawing.axis
    columns = samples.run_columns(run, panels, axis)
    figure = charts.run_chart(panels, columns, list(run.marks.all()), axis, drawing.theme, drawing.width)
    figure = shades.laid(figure, shades.within_run(run.step_stabilities.all(), axis, drawing.theme))
    return figure | {"seq": run.last_seq, "steps": axis.offsets(), "means": samples.means_of(run, panels, axis)}


def _draw_heat(run: Run, drawing: Drawing) -> Figure | None:
    heat = latencies.heat_of(run, drawing.step, drawing.axis)
    return charts.heat_chart(heat, drawing.axis, drawing.theme) | {"steps": drawing.axis.offsets()} if heat else None


def _draw_spread(run: Run, drawing: Drawing) -> Figure | None:
    distributions = spreads.of_run(run, drawing.step)
    return charts.spread_chart(distributions, drawing.theme) if distributions.entries else None


RUN_CHARTS: tuple[RunChart, ...] = (
    RunChart(
        "time",
        "Over time",
        lambda has: [],  # at the top of the page, whose form says which panels of which step it shows
        _draw_panels,
        "All panels on one time axis",
        "No samples: nothing was measured in this run.",
        over_time=True,
        figure="run_figure",
        csv="run_csv",
    ),
    RunChart(
        "nines",
        "Latency by percentile",
        lambda has: has.steps_with("latency.json", "fio.json"),
        lambda run, drawing: charts.nines_chart(latencies.curves_of(run), drawing.theme),
        "Latency by percentile, on an axis of nines; the measurements table has the values",
        "No transactions were logged.",
    ),
    RunChart(
        "spread",
        "Distribution of latencies",
        lambda has: has.steps_with("fio.json"),
        _draw_spread,
        "Number of I/Os by latency",
        "fio reported no I/O.",
        per_step=True,
        figure="run_spread",
        csv="run_spread_csv",
        help="The area under the outline between two latencies is the share of I/Os with that latency.",
        heard="clat_p",
    ),
    RunChart(
        "heat",
        "Latency over time",
        lambda has: has.steps_with("latency.json"),
        _draw_heat,
        "Number of transactions by latency, second by second",
        "No transactions were logged.",
        per_step=True,
        over_time=True,
    ),
    RunChart(
        "statements",
        "Latency by statement",
        _statements,
        lambda run, drawing: charts.statement_chart(latencies.statements_of(run), drawing.theme, drawing.width),
        "Mean latency of each statement; the measurements table has the values",
        "No statement latencies were recorded.",
        low=True,
    ),
)
BY_NAME = {chart.name: chart for chart in RUN_CHARTS}
