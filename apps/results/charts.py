"""Rows in, Plotly figure (a dict) out. Colours come from one palette each for light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.results import thin
from apps.results.models import Mark
from apps.results.queries import CampaignTable
from apps.results.samples import Column
from apps.results.series import Panel
from apps.results.timeline import MEASURE, Axis

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
# Of one line, and of one heat map along the time: about as many as a wide screen has dots.
MOST_POINTS, MOST_COLUMNS = 2000, 1000
# Of a chart, unless its page says it, and of a letter in the mean.
WIDTH_PX, LETTER_PX = 1200, 7.5
LONGEST_NAME = 24
# A panel of a run's chart with the room above it for its title and legend, and the strip of marks at the top.
PANEL_PX, TITLE_PX, FOOT_PX, STRIP_PX = 208, 54, 14, 40
# A legend may take two rows, on a telephone.
LEGEND_PX = 34
STEPS_PX = 22
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
    data = [*_of_hosts(runs, table, look), *_means(means, table, look)]
    axis = {
        "tickvals": list(range(len(table.levels))),
        "ticktext": [level.label for level in table.levels],
        "range": [-0.5, len(table.levels) - 0.5],
        "title": {"text": table.factor_names},
        "zeroline": False,
    }
    quantity = table.metric if table.unit in ("", table.metric) else f"{table.metric} ({table.unit})"
    layout = _layout(look, xaxis=axis, yaxis={"title": {"text": quantity}, "zeroline": False})
    layout["legend"] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    layout["annotations"] = [_note("the axis does not start at 0", look)]
    return {"data": data, "layout": layout}


def _of_hosts(rows: Sequence[Mapping[str, Any]], table: CampaignTable, look: Theme) -> list[Figure]:
    """One trace, and of several hosts one each: side by side, with a symbol and a colour of its own."""
    hosts = sorted({row["point"].host for row in rows})
    if len(hosts) < 2:
        return [_run_points(rows, table, look)]
    traces = []
    for place, host in enumerate(hosts):
        aside = 0.16 * (place / (len(hosts) - 1) - 0.5)
        own = [{**row, "x": row["x"] + aside} for row in rows if row["point"].host == host]
        marker = {"color": _beside_means(look, place), "symbol": f"{SYMBOLS[place % len(SYMBOLS)]}-open"}
        trace = _run_points(own, table, look)
        traces.append({**trace, "name": f"one run on {host}", "marker": trace["marker"] | marker})
    return traces


def _beside_means(look: Theme, place: int) -> str:
    """A colour that the means do not have."""
    free = [colour for colour in look.series if colour != look.series[1]]
    return free[place % len(free)]


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


def run_chart(
    panels: Sequence[Panel],
    columns: Sequence[Column],
    marks: Sequence[Mark],
    axis: Axis,
    look: Theme,
    width: int = WIDTH_PX,
) -> Figure:
    """A run on one time axis: its panels, stacked, each with a legend of its own; above them what happened when.

    Lines are thinned so that no spike and no gap is lost; who looks closer asks again with a part of the time. Many
    lines of a kind become a heat map. Heights are in pixels, so that few panels are not stretched."""
    lines = {panel.key: [column for column in columns if column.panel == panel] for panel in panels}
    drawn = [panel for panel in panels if lines[panel.key]]
    below, data, placed = PANEL_PX * len(drawn), list[Figure](), _placed(marks, axis)
    strip = STRIP_PX if placed else 0
    inner = below + strip
    layout = _layout(look, xaxis={"title": {"text": axis.title}, "anchor": f"y{len(drawn)}", **_range(axis)})
    layout |= {"height": inner + MARGIN_PX, "showlegend": True, "annotations": [], "shapes": [], "margin": {**MARGINS}}
    # What somebody zoomed into stays so while the same panels are drawn anew.
    layout["uirevision"] = " ".join([*(panel.key for panel in drawn), *axis.offsets()])
    if drawn:
        _steps(axis, bool(placed), layout, look, (width - MARGINS["l"] - MARGINS["r"]) / LETTER_PX)
    for place, panel in enumerate(drawn):
        top = (below - place * PANEL_PX - TITLE_PX) / inner
        bottom = (below - (place + 1) * PANEL_PX + FOOT_PX) / inner
        data += _panel(panel, lines[panel.key], place + 1, (bottom, top), layout, look)
    if drawn and placed:
        data += _strip(placed, len(drawn) + 1, ((below + FOOT_PX) / inner, 1.0), layout, look)
    return {"data": data, "layout": layout}


def _range(axis: Axis) -> Figure:
    """The part that is shown; all of it is Plotly's own choice."""
    return {} if axis.begin is None or axis.end is None else {"range": [axis.begin, axis.end], "autorange": False}


def _steps(axis: Axis, above_marks: bool, layout: Figure, look: Theme, letters: float) -> None:
    """Where several steps follow each other, or one only warms up: their names at the top, where there is room for so
    many letters in all, a line where each begins, and a shade over what is not measured."""
    if all(step.role == MEASURE for step in axis.steps) and len(axis.steps) < 2:
        return
    yshift = LEGEND_PX - 14 if above_marks else LEGEND_PX - 30
    layout["margin"]["t"] += STEPS_PX
    layout["height"] += STEPS_PX
    edge = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"color": look.text, "width": 1}, "opacity": 0.5}
    shade = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "fillcolor": look.text, "opacity": 0.08}
    last = axis.end or max((step.end or step.begin for step in axis.steps), default=0.0)
    begin = axis.begin or 0.0
    for step, following in zip(axis.steps, [*axis.steps[1:], None], strict=True):
        end = step.end or (following.begin if following else last)
        seen = max(step.begin, begin), min(end, last)
        if step.role != MEASURE and end > step.begin:
            layout["shapes"].append(shade | {"x0": step.begin, "x1": end, "layer": "below", "line": {"width": 0}})
        layout["shapes"].append(edge | {"x0": step.begin, "x1": step.begin})
        if seen[0] < seen[1]:
            room = int(letters * (seen[1] - seen[0]) / max(last - begin, 1e-9))
            note = {"text": _fitting(step.title, room), "x": seen[0]}
            place = {"xref": "x", "yref": "paper", "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": yshift}
            layout["annotations"].append({**note, **place, "showarrow": False, "hovertext": step.title})


def _fitting(title: str, room: int) -> str:
    """As much of a name as there is room for above its step."""
    text = title if len(title) <= room else f"{title[: max(0, room - 1)]}…"
    return text.replace("<", "&lt;")


@dataclass(frozen=True)
class _Placed:
    """A mark on the axis: from `begin` to `end`, both the same where its end was not seen."""

    mark: Mark
    begin: float
    end: float


def _placed(marks: Sequence[Mark], axis: Axis) -> list[_Placed]:
    """Each where it happened, once: one that reaches into the next step was noted there as well."""
    offsets, found = axis.offsets(), dict[tuple[str, float], _Placed]()
    for mark in marks:
        offset = offsets.get(mark.step)
        if offset is None:
            continue
        begin = mark.t + offset
        end = begin if mark.until is None else mark.until + offset
        found.setdefault((mark.kind, round(begin, 1)), _Placed(mark, begin, end))
    low, high = axis.within(0.0)
    return [each for each in found.values() if each.end >= low and each.begin <= high]


def _panel(
    panel: Panel, lines: Sequence[Column], number: int, domain: tuple[float, float], layout: Figure, look: Theme
) -> list[Figure]:
    axis, legend = f"y{number if number > 1 else ''}", f"legend{number if number > 1 else ''}"
    layout[f"yaxis{axis[1:]}"] = _axis(panel, domain, look) if len(lines) <= MOST_LINES else _names(lines, domain)
    title = {"text": panel.title, "xref": "paper", "yref": "paper", "x": 0, "y": domain[1], "xanchor": "left"}
    layout["annotations"].append(title | {"yanchor": "bottom", "yshift": LEGEND_PX, "showarrow": False})
    if len(lines) > MOST_LINES:
        return _heat_map(lines, axis)
    look_of_it = {"font": {"size": 11}, "bgcolor": "rgba(0,0,0,0)"}
    layout[legend] = {"orientation": "h", "x": 0, "y": domain[1], "yanchor": "bottom", **look_of_it}
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
    return [_line(line, axis, legend, look, i) for i, line in enumerate(lines)]


def _line(line: Column, axis: str, legend: str, look: Theme, i: int) -> Figure:
    kept = thin.extremes(line.values, MOST_POINTS)
    values = line.values[kept].astype(np.float32)
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(kept) <= MOST_MARKERS or _lonely(values) else "lines",
        "name": line.name,
        "meta": f"{line.source} {line.name}",
        "x": line.t[kept],
        "y": values,
        "yaxis": axis,
        "legend": legend,
        "line": {"color": look.series[i], "dash": DASHES[i], "width": 1.5},
        "marker": {"symbol": SYMBOLS[i], "size": 5},
        "hovertemplate": f"%{{y:,.4g}} {line.unit}<extra>{line.name}</extra>",
    }


def _lonely(values: NDArray[np.float32]) -> bool:
    """Whether a sample stands between missing ones, where a line alone would not show it."""
    missing = np.isnan(np.concatenate([[np.nan], values, [np.nan]]))
    return bool((~missing[1:-1] & missing[:-2] & missing[2:]).any())


def _heat_map(lines: Sequence[Column], axis: str) -> list[Figure]:
    return [
        {
            "type": "heatmap",
            "colorscale": "Cividis",
            "meta": lines[0].source,
            "x": thin.begins(lines[0].t, MOST_COLUMNS),
            "y": [line.name for line in lines],
            "z": [thin.peaks(line.values, MOST_COLUMNS).astype(np.float32) for line in lines],
            "yaxis": axis,
            "showscale": False,
            "hovertemplate": f"%{{y}} at %{{x}} s: %{{z:.4g}} {lines[0].unit}<extra></extra>",
        }
    ]


def _strip(
    placed: Sequence[_Placed], number: int, domain: tuple[float, float], layout: Figure, look: Theme
) -> list[Figure]:
    """Each mark as a bar from its beginning to its end, which tells the rest, and lines down through all panels."""
    layout[f"yaxis{number}"] = {"domain": domain, "range": [0, 1], "visible": False, "fixedrange": True}
    title = {"text": " and ".join(sorted({f"{each.mark.kind}s" for each in placed})), "xref": "paper", "yref": "paper"}
    layout["annotations"].append(title | {"x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "showarrow": False})
    edges = [at for each in placed[:MOST_MARKS] for at in sorted({each.begin, each.end}) if at >= 0]
    line = {"color": look.series[1], "width": 1, "dash": "dot"}
    layout["shapes"] += [
        {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line, "opacity": 0.6}
        for at in edges
    ]
    # A gap after each, or Plotly would join them.
    spans = [(max(each.begin, 0.0), max(each.end, 0.0)) for each in placed]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "marks",
            "showlegend": False,
            "x": [at for span in spans for at in (*span, None)],
            "y": [0.5, 0.5, None] * len(placed),
            "text": [text for each in placed for text in (_told(each), _told(each), "")],
            "yaxis": f"y{number}",
            "hovertemplate": "%{text}<extra></extra>",
            "line": {"color": look.series[1], "width": 6},
            "marker": {"color": look.series[1], "symbol": "line-ns", "size": 9, "line": {"width": 2}},
        }
    ]


def _told(placed: _Placed) -> str:
    """What hovering over a mark shows; the label is the server's own text, which Plotly must not take for markup."""
    mark = placed.mark
    label = mark.label.replace("<", "&lt;")
    figures = [f"{name.replace('_', ' ')} {value:,g}" for name, value in sorted(mark.data.items())]
    return "<br>".join([f"{mark.kind} at {placed.begin:.1f} s: {label}", *figures])


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
