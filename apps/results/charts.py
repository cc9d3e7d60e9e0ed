"""Rows in, Plotly figure (a dict) out. Colours come from one palette each for light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.results.queries import CampaignTable, Column

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


def run_chart(columns: Sequence[Column], look: Theme) -> Figure:
    """A run on one time axis: a panel per unit, stacked. Many cpus become a heat map."""
    panels: dict[str, list[Column]] = {}
    for column in columns:
        panels.setdefault(column.panel, []).append(column)
    data: list[Figure] = []
    layout = _layout(look, xaxis={"title": {"text": "seconds since the step began"}, "anchor": f"y{len(panels)}"})
    gap = 0.05
    height = (1 - gap * (len(panels) - 1)) / max(len(panels), 1)
    for number, (title, lines) in enumerate(panels.items(), start=1):
        top = 1 - (number - 1) * (height + gap)
        axis = "y" if number == 1 else f"y{number}"
        layout["yaxis" if number == 1 else f"yaxis{number}"] = _axis(title, top - height, top, look)
        data += _heat_map(lines, axis) if len(lines) > MOST_LINES else _lines(lines, axis, look)
    layout["height"] = 60 + 170 * max(len(panels), 1)
    layout["showlegend"] = True
    layout["legend"] = {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"}
    return {"data": data, "layout": layout}


def _axis(title: str, low: float, high: float, look: Theme) -> Figure:
    axis: Figure = {"domain": [max(low, 0), min(high, 1)], "title": {"text": title}, "gridcolor": look.grid}
    axis |= {"zeroline": False, "automargin": True}
    if "latency" in title:
        return axis | {"type": "log", "dtick": "D2"}
    return axis | {"rangemode": "tozero"}


def _lines(lines: Sequence[Column], axis: str, look: Theme) -> list[Figure]:
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": line.name,
            "x": line.t.tolist(),
            "y": _plain(line.values),
            "yaxis": axis,
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
            "x": lines[0].t.tolist(),
            "y": [line.name for line in lines],
            "z": [_plain(line.values) for line in lines],
            "yaxis": axis,
            "showscale": False,
            "hovertemplate": f"%{{y}} at %{{x}} s: %{{z:.4g}} {lines[0].unit}<extra></extra>",
        }
    ]


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
