"""Rows in, Plotly figure (a dict) out. Colours come from one palette each for light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.results.models import Mark
from apps.results.queries import CampaignTable
from apps.results.series import Column, Panel

Figure = dict[str, Any]


@dataclass(frozen=True)
class Theme:
    """Series colours in order, then text, grid, and paper."""

    series: tuple[str, ...]
    text: str
    grid: str
    paper: str


LIGHT = Theme(("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#1F2328", "#7A4B00"), "#1F2328", "#D9DDE3", "#FFFFFF")
DARK = Theme(("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#E6E8EB"), "#E6E8EB", "#33383E", "#121417")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x")
# Beyond this many lines a panel shows the whole spread as a heat map instead.
MOST_LINES = 6
# Beyond this many samples single ones are not told apart, and markers only cost.
MOST_MARKERS = 600
MOST_MARKS = 200
LONGEST_NAME = 24
# A panel of a run's chart with the room above it for its title and legend, and the strip of marks at the top.
PANEL_PX, TITLE_PX, FOOT_PX, STRIP_PX = 208, 54, 14, 40
# A legend may take two rows, on a telephone.
LEGEND_PX = 34
MARGINS = {"l": 64, "r": 12, "t": 30, "b": 50}
MARGIN_PX = MARGINS["t"] + MARGINS["b"]


def theme(name: str) -> Theme:
    return DARK if name == "dark" else LIGHT


def level_chart(table: CampaignTable, look: Theme) -> Figure:
    """One point per run, and beside them the geometric mean with its 95 % interval, level by level."""
    runs: list[Mapping[str, Any]] = []
    means: list[Mapping[str, Any]] = []
    for place, level in enumerate(table.levels):
        runs += [{"x": place - 0.12, "point": point} for point in level.points]
        if level.mean is not None:
            means.append({"x": place + 0.12, "level": level})
    data = [_run_points(runs, table, look), *_means(means, table, look)]
    axis = {
        "tickvals": list(range(len(table.levels))),
        "ticktext": [level.label for level in table.levels],
        "range": [-0.5, len(table.levels) - 0.5],
        "title": {"text": table.factor_names},
        "zeroline": False,
    }
    quantity = table.metric if table.unit in ("", table.metric) else f"{table.metric} ({table.unit})"
    layout = _layout(look, xaxis=axis, yaxis={"title": {"text": quantity}, "zeroline": False})
    layout["legend"] = {"orientation": "h", "y": 1.12, "x": 0}
    layout["annotations"] = [_note("the axis does not start at 0", look)]
    return {"data": data, "layout": layout}


def _run_points(rows: Sequence[Mapping[str, Any]], table: CampaignTable, look: Theme) -> Figure:
    points = [row["point"] for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "one run",
        "x": [row["x"] for row in rows],
        "y": [point.value for point in points],
        "customdata": [[str(point.run), point.block + 1, point.position + 1] for point in points],
        "hovertemplate": f"%{{y:,.5g}} {table.unit}<br>block %{{customdata[1]}}, run %{{customdata[2]}}<extra></extra>",
        "marker": {"color": look.series[0], "size": 9, "symbol": "circle-open", "line": {"width": 2}},
    }


def _means(rows: Sequence[Mapping[str, Any]], table: CampaignTable, look: Theme) -> list[Figure]:
    """Levels with an interval, and apart those with too few runs for one: Plotly caps even a whisker of no length."""
    bounded = [row for row in rows if row["level"].low is not None]
    bare = [row for row in rows if row["level"].low is None]
    traces = []
    if bounded:
        traces.append(_diamonds("geometric mean, 95 % interval", bounded, table, look) | _whiskers(bounded, look))
    if bare:
        traces.append(_diamonds("geometric mean, too few runs for an interval", bare, table, look))
    return traces


def _diamonds(name: str, rows: Sequence[Mapping[str, Any]], table: CampaignTable, look: Theme) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row["x"] for row in rows],
        "y": [row["level"].mean for row in rows],
        "hovertemplate": f"%{{y:,.5g}} {table.unit}<extra>geometric mean</extra>",
        "marker": {"color": look.series[1], "size": 10, "symbol": "diamond"},
    }


def _whiskers(rows: Sequence[Mapping[str, Any]], look: Theme) -> Figure:
    levels = [row["level"] for row in rows]
    above, below = [lv.high - lv.mean for lv in levels], [lv.mean - lv.low for lv in levels]
    bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    return {"error_y": bars | {"color": look.series[1], "thickness": 2, "width": 8}}


def run_chart(panels: Sequence[Panel], columns: Sequence[Column], marks: Sequence[Mark], look: Theme) -> Figure:
    """A run on one time axis: its panels, stacked, each with a legend of its own; above them what happened when.

    Many lines of a kind become a heat map. Heights are in pixels, so that few panels are not stretched."""
    lines = {panel.key: [column for column in columns if column.panel == panel] for panel in panels}
    drawn = [panel for panel in panels if lines[panel.key]]
    below, data = PANEL_PX * len(drawn), list[Figure]()
    strip = STRIP_PX if marks else 0
    inner = below + strip
    layout = _layout(look, xaxis={"title": {"text": "seconds since the step began"}, "anchor": f"y{len(drawn)}"})
    layout |= {"height": inner + MARGIN_PX, "showlegend": True, "annotations": [], "margin": MARGINS}
    for place, panel in enumerate(drawn):
        top = (below - place * PANEL_PX - TITLE_PX) / inner
        bottom = (below - (place + 1) * PANEL_PX + FOOT_PX) / inner
        data += _panel(panel, lines[panel.key], place + 1, (bottom, top), layout, look)
    if drawn and marks:
        data += _strip(marks, len(drawn) + 1, ((below + FOOT_PX) / inner, 1.0), layout, look)
    return {"data": data, "layout": layout}


def _panel(
    panel: Panel, lines: Sequence[Column], number: int, domain: tuple[float, float], layout: Figure, look: Theme
) -> list[Figure]:
    axis, legend = f"y{number if number > 1 else ''}", f"legend{number if number > 1 else ''}"
    layout[f"yaxis{axis[1:]}"] = _axis(panel, domain, look) if len(lines) <= MOST_LINES else _names(lines, domain)
    title = {"text": panel.title, "xref": "paper", "yref": "paper", "x": 0, "y": domain[1], "xanchor": "left"}
    layout["annotations"].append(title | {"yanchor": "bottom", "yshift": LEGEND_PX, "showarrow": False})
    if len(lines) > MOST_LINES:
        return _heat_map(lines, axis)
    layout[legend] = {"orientation": "h", "x": 0, "y": domain[1], "yanchor": "bottom", "font": {"size": 11}}
    return _lines(lines, axis, legend, look)


def _axis(panel: Panel, domain: tuple[float, float], look: Theme) -> Figure:
    axis: Figure = {"domain": domain, "title": {"text": panel.unit}, "gridcolor": look.grid}
    axis |= {"zeroline": False, "automargin": True}
    if panel.group == "latency":
        return axis | {"type": "log", "dtick": "D2"}
    return axis | {"rangemode": "tozero"}


def _names(lines: Sequence[Column], domain: tuple[float, float]) -> Figure:
    """The axis of a heat map: its names, short enough to leave a telephone some room for the map."""
    shown = [line.name.removeprefix("wait.") for line in lines]
    texts = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in shown]
    ticks = {"tickvals": [line.name for line in lines], "ticktext": texts, "tickfont": {"size": 10}}
    return {"domain": domain, "automargin": True, **ticks}


def _lines(lines: Sequence[Column], axis: str, legend: str, look: Theme) -> list[Figure]:
    return [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(line.t) <= MOST_MARKERS else "lines",
            "name": line.name,
            "meta": f"{line.source} {line.name}",
            "x": line.t.tolist(),
            "y": _plain(line.values),
            "yaxis": axis,
            "legend": legend,
            "line": {"color": look.series[i], "dash": DASHES[i], "width": 1.5},
            "marker": {"symbol": SYMBOLS[i], "size": 5},
            "hovertemplate": f"%{{y:,.4g}} {line.unit}<extra>{line.name}</extra>",
        }
        for i, line in enumerate(lines)
    ]


def _heat_map(lines: Sequence[Column], axis: str) -> list[Figure]:
    return [
        {
            "type": "heatmap",
            "colorscale": "Cividis",
            "meta": lines[0].source,
            "x": lines[0].t.tolist(),
            "y": [line.name for line in lines],
            "z": [_plain(line.values) for line in lines],
            "yaxis": axis,
            "showscale": False,
            "hovertemplate": f"%{{y}} at %{{x}} s: %{{z:.4g}} {lines[0].unit}<extra></extra>",
        }
    ]


def _strip(
    marks: Sequence[Mark], number: int, domain: tuple[float, float], layout: Figure, look: Theme
) -> list[Figure]:
    """Each mark as a bar from its beginning to its end, which tells the rest, and lines down through all panels."""
    layout[f"yaxis{number}"] = {"domain": domain, "range": [0, 1], "visible": False, "fixedrange": True}
    title = {"text": " and ".join(sorted({f"{mark.kind}s" for mark in marks})), "xref": "paper", "yref": "paper"}
    layout["annotations"].append(title | {"x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "showarrow": False})
    edges = [at for mark in marks[:MOST_MARKS] for at in (mark.t, mark.until) if at is not None and at >= 0]
    line = {"color": look.series[1], "width": 1, "dash": "dot"}
    layout["shapes"] = [
        {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line, "opacity": 0.6}
        for at in edges
    ]
    # A gap after each, or Plotly would join them.
    spans = [(max(mark.t, 0.0), mark.until if mark.until is not None else max(mark.t, 0.0)) for mark in marks]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "marks",
            "showlegend": False,
            "x": [at for span in spans for at in (*span, None)],
            "y": [0.5, 0.5, None] * len(marks),
            "text": [text for mark in marks for text in (_told(mark), _told(mark), "")],
            "yaxis": f"y{number}",
            "hovertemplate": "%{text}<extra></extra>",
            "line": {"color": look.series[1], "width": 6},
            "marker": {"color": look.series[1], "symbol": "line-ns", "size": 9, "line": {"width": 2}},
        }
    ]


def _told(mark: Mark) -> str:
    """What hovering over a mark shows; the label is the server's own text, which Plotly must not take for markup."""
    label = mark.label.replace("<", "&lt;")
    figures = [f"{name.replace('_', ' ')} {value:,g}" for name, value in sorted(mark.data.items())]
    return "<br>".join([f"{mark.kind} at {mark.t:.1f} s: {label}", *figures])


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    """JSON knows no nan."""
    return [None if np.isnan(value) else float(value) for value in values]


def _layout(look: Theme, **axes: Figure) -> Figure:
    grid = {"gridcolor": look.grid, "linecolor": look.grid, "automargin": True}
    return {
        "paper_bgcolor": look.paper,
        "plot_bgcolor": look.paper,
        "font": {"color": look.text, "family": "system-ui, sans-serif", "size": 13},
        "margin": {"l": 70, "r": 16, "t": 40, "b": 50},
        "hovermode": "closest",
        "colorway": list(look.series),
        **{name: grid | axis for name, axis in axes.items()},
    }


def _note(text: str, look: Theme) -> Figure:
    place = {"xref": "paper", "yref": "paper", "x": 1, "y": 0, "xanchor": "right", "yanchor": "bottom"}
    return {"text": text, "showarrow": False, "font": {"size": 11, "color": look.text}, "opacity": 0.8, **place}
