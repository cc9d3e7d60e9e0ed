"""The chart of a run: panels on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.results.charts import stack
from apps.results.charts.themes import DASHES, LOGARITHMIC, SYMBOLS, WIDTH_PX, Figure, Theme, visible_range
from apps.results.charts.themes import layout as blank
from apps.results.models import Mark
from apps.results.runs import thin
from apps.results.runs.time_axis import MEASURE, Axis
from apps.results.store.samples import Column
from apps.results.store.series import Panel

# With more lines, a panel is a heat map.
MOST_LINES = 6
# With more samples, markers overlap and only cost time.
MOST_MARKERS = 600
MOST_MARKS = 200
# Points of a line, and columns of a heat map: about as many as a wide screen has pixels.
MOST_POINTS, MOST_COLUMNS = 2000, 1000
LETTER_PX = 7.5  # mean width of a letter
LONGEST_NAME = 24
# A panel of a run's chart with the room above it for its title and legend and below it for the labels of its time axis,
# and the strip of marks at the top.
PANEL_PX, TITLE_PX, FOOT_PX, STRIP_PX = 226, 54, 32, 40
# Two rows of a legend; if a phone needs more, the panel is higher.
LEGEND_PX = 34
# Of a legend: a row, the line before a name and the number after it, and a letter.
ROW_PX, SIGN_PX, SMALL_LETTER_PX = 26, 84, 6.5
STEPS_PX = 22
# Above a heat map, in the place of a legend.
SCALE = {"orientation": "h", "x": 0, "xanchor": "left", "yanchor": "bottom", "lenmode": "pixels", "len": 220}
SCALE |= {"thickness": 8, "ypad": 10, "outlinewidth": 0, "tickfont": {"size": 10}, "nticks": 4}
MARGINS = {"l": 64, "r": 12, "t": 30, "b": 50}
MARGIN_PX = MARGINS["t"] + MARGINS["b"]


def run_chart(
    panels: Sequence[Panel],
    columns: Sequence[Column],
    marks: Sequence[Mark],
    axis: Axis,
    theme: Theme,
    width: int = WIDTH_PX,
) -> Figure:
    """Draw a run in panels, each with its legend and time axis; all axes show the same time, with marks above.

    Lines are reduced so that no spike and no gap is lost; a zoom requests a part of the time again. Parts of a whole
    are stacked areas; many lines of another kind become a heat map. Heights are in pixels, whatever the number of
    panels."""
    lines = {panel.key: [column for column in columns if column.panel == panel] for panel in panels}
    drawn = [panel for panel in panels if lines[panel.key]]
    room = width - MARGINS["l"] - MARGINS["r"]
    legends = [_legend_px(panel, lines[panel.key], room) for panel in drawn]
    heights = [PANEL_PX + legend - LEGEND_PX for legend in legends]
    below, data, placed = sum(heights), list[Figure](), _placed(marks, axis)
    strip = STRIP_PX if placed else 0
    inner = below + strip
    layout = blank(theme, **_times(len(drawn), axis))
    layout |= {"height": inner + MARGIN_PX, "showlegend": True, "annotations": [], "shapes": [], "margin": {**MARGINS}}
    layout["hovermode"] = "x unified"
    # Keep the user's zoom while the same panels are drawn again.
    layout["uirevision"] = " ".join([*(panel.key for panel in drawn), *axis.offsets()])
    if drawn:
        _steps(axis, bool(placed), layout, theme, room / LETTER_PX)
    for place, (panel, legend) in enumerate(zip(drawn, legends, strict=True)):
        begin, end = (below - sum(heights[:until]) for until in (place, place + 1))
        domain = ((end + FOOT_PX) / inner, (begin - TITLE_PX - legend + LEGEND_PX) / inner)
        data += [
            trace | {"xaxis": _numbered("x", place + 1)}
            for trace in _panel(panel, lines[panel.key], place + 1, domain, layout, theme)
        ]
        layout["annotations"][-1]["yshift"] = legend
    if drawn and placed:
        data += _strip(placed, len(drawn) + 1, ((below + FOOT_PX) / inner, 1.0), layout, theme)
    return {"data": data, "layout": layout, "others": _others(drawn, lines)}


def _numbered(letter: str, number: int) -> str:
    """Return Plotly's name of an axis or legend; the first one has no number."""
    return letter if number == 1 else f"{letter}{number}"


def _times(panels: int, axis: Axis) -> dict[str, Figure]:
    """Return a time axis for each panel. A zoom into one applies to all."""
    axes: dict[str, Figure] = {"xaxis": {"anchor": "y", "hoverformat": ".1f", **visible_range(axis)}}
    for number in range(2, panels + 1):
        axes[_numbered("xaxis", number)] = {"anchor": f"y{number}", "matches": "x", "hoverformat": ".1f"}
    for each in axes.values():
        each |= {"ticklabelstandoff": 2, "unifiedhovertitle": {"text": "%{x:.1f} s"}}
    axes[_numbered("xaxis", max(1, panels))]["title"] = {"text": axis.title, "standoff": 8}
    return axes


def _others(panels: Sequence[Panel], lines: Mapping[str, Sequence[Column]]) -> dict[str, list[str]]:
    """Return key of a stack's last area -> the columns that it adds up, for pages that add live samples."""
    cut = ((panel, stack.parts(lines[panel.key])) for panel in panels if panel.stacked)
    return {stack.key_of(panel): [line.name for line in rest] for panel, (_, rest) in cut if rest}


def _steps(axis: Axis, above_marks: bool, layout: Figure, theme: Theme, letters: float) -> None:
    """Mark several steps, or a warm-up: names at the top if they fit, a line at each start, and a shade over times
    that are not measured."""
    if all(step.role == MEASURE for step in axis.steps) and len(axis.steps) < 2:
        return
    yshift = LEGEND_PX - 14 if above_marks else LEGEND_PX - 30
    layout["margin"]["t"] += STEPS_PX
    layout["height"] += STEPS_PX
    edge = {
        "type": "line",
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": theme.text, "width": 1},
        "opacity": 0.5,
    }
    shade = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "fillcolor": theme.text, "opacity": 0.08}
    last = axis.end or max((step.end or step.begin for step in axis.steps), default=0.0)
    begin = axis.begin or 0.0
    for step, following in zip(axis.steps, [*axis.steps[1:], None], strict=True):
        end = step.end or (following.begin if following else last)
        visible = max(step.begin, begin), min(end, last)
        if step.role != MEASURE and end > step.begin:
            layout["shapes"].append(shade | {"x0": step.begin, "x1": end, "layer": "below", "line": {"width": 0}})
        layout["shapes"].append(edge | {"x0": step.begin, "x1": step.begin})
        if visible[0] < visible[1]:
            room = int(letters * (visible[1] - visible[0]) / max(last - begin, 1e-9))
            note = {"text": _fitting(step.title, room), "x": visible[0]}
            place = {"xref": "x", "yref": "paper", "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": yshift}
            layout["annotations"].append({**note, **place, "showarrow": False, "hovertext": step.title})


def _fitting(title: str, room: int) -> str:
    """Return as much of a name as fits above its step."""
    text = title if len(title) <= room else f"{title[: max(0, room - 1)]}…"
    return text.replace("<", "&lt;")


@dataclass(frozen=True)
class _Placed:
    """A mark on the axis, from `begin` to `end`; both are equal if it has no end."""

    mark: Mark
    begin: float
    end: float


def _placed(marks: Sequence[Mark], axis: Axis) -> list[_Placed]:
    """Return each mark once. One that reaches into the next step was recorded there too."""
    offsets, placed = axis.offsets(), dict[tuple[str, float], _Placed]()
    for mark in marks:
        offset = offsets.get(mark.step)
        if offset is None:
            continue
        begin = mark.t + offset
        end = begin if mark.until is None else mark.until + offset
        placed.setdefault((mark.kind, round(begin, 1)), _Placed(mark, begin, end))
    low, high = axis.range_from(0.0)
    return [placed_mark for placed_mark in placed.values() if placed_mark.end >= low and placed_mark.begin <= high]


def _panel(
    panel: Panel, lines: Sequence[Column], number: int, domain: tuple[float, float], layout: Figure, theme: Theme
) -> list[Figure]:
    axis, legend = _numbered("y", number), _numbered("legend", number)
    mapped = _is_map(panel, lines)
    layout[f"yaxis{axis[1:]}"] = _names(lines, domain) if mapped else _axis(panel, domain, theme)
    heading = f"{panel.title}, single node" if panel.heat and len(lines) == 1 else panel.title
    title = {"text": heading, "xref": "paper", "yref": "paper", "x": 0, "y": domain[1], "xanchor": "left"}
    layout["annotations"].append(title | {"yanchor": "bottom", "showarrow": False})
    if mapped:
        return _heat_map(lines, axis, domain, theme)
    legend_style = {"font": {"size": 11}, "bgcolor": "rgba(0,0,0,0)"}
    layout[legend] = {"orientation": "h", "x": 0, "y": domain[1], "yanchor": "bottom", **legend_style}
    if panel.stacked:
        return stack.areas(panel, lines, axis, legend, theme)
    return _lines(lines, axis, legend, theme)


def _is_map(panel: Panel, lines: Sequence[Column]) -> bool:
    return panel.heat or (len(lines) > MOST_LINES and not panel.stacked)


def _legend_px(panel: Panel, lines: Sequence[Column], room: float) -> int:
    """Return the height of a panel's legend, whose entries are as wide as their names and numbers."""
    if _is_map(panel, lines):
        return LEGEND_PX
    names = stack.names(lines) if panel.stacked else [line.name for line in lines]
    rows, used = 1, 0.0
    for entry_px in (SIGN_PX + SMALL_LETTER_PX * len(name) for name in names):
        rows, used = (rows, used + entry_px) if used + entry_px <= room or not used else (rows + 1, entry_px)
    return max(LEGEND_PX, rows * ROW_PX + 4)


def _axis(panel: Panel, domain: tuple[float, float], theme: Theme) -> Figure:
    axis: Figure = {"domain": domain, "title": {"text": panel.unit}, "gridcolor": theme.grid}
    axis |= {"zeroline": False, "automargin": True}
    if panel.group == "latency":
        return axis | LOGARITHMIC
    return axis | {"rangemode": "tozero"}


def _names(lines: Sequence[Column], domain: tuple[float, float]) -> Figure:
    """Return the vertical axis of a heat map, with names short enough for a phone."""
    shown = [line.name.partition(".")[0] if line.panel.heat else line.name.removeprefix("wait.") for line in lines]
    texts = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in shown]
    ticks = {"tickvals": [line.name for line in lines], "ticktext": texts, "tickfont": {"size": 10}}
    return {"domain": domain, "automargin": True, **ticks}


def _lines(lines: Sequence[Column], axis: str, legend: str, theme: Theme) -> list[Figure]:
    return [_line(line, axis, legend, theme, i) for i, line in enumerate(lines)]


def _line(line: Column, axis: str, legend: str, theme: Theme, i: int) -> Figure:
    indices = thin.extremes(line.values, MOST_POINTS)
    values = line.values[indices].astype(np.float32)
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(indices) <= MOST_MARKERS or _lonely(values) else "lines",
        "name": line.name,
        "meta": f"{line.source} {line.name}",
        "x": line.t[indices],
        "y": values,
        "yaxis": axis,
        "legend": legend,
        "line": {"color": theme.series[i], "dash": DASHES[i], "width": 1.5},
        "marker": {"symbol": SYMBOLS[i], "size": 5},
        "hovertemplate": f"%{{y:,.4g}} {line.unit}<extra>{line.name}</extra>",
    }


def _lonely(values: NDArray[np.float32]) -> bool:
    """Return whether a sample has missing neighbours, where a line alone would not show it."""
    missing = np.isnan(np.concatenate([[np.nan], values, [np.nan]]))
    return bool((~missing[1:-1] & missing[:-2] & missing[2:]).any())


def _heat_map(lines: Sequence[Column], axis: str, domain: tuple[float, float], theme: Theme) -> list[Figure]:
    return [
        {
            "type": "heatmap",
            "colorscale": theme.heat,
            **_shares(lines),
            "colorbar": SCALE | {"y": domain[1]},
            "meta": lines[0].source,
            "x": thin.begins(lines[0].t, MOST_COLUMNS),
            "y": [line.name for line in lines],
            "z": [thin.peaks(line.values, MOST_COLUMNS).astype(np.float32) for line in lines],
            "yaxis": axis,
            "hovertemplate": f"%{{y}} at %{{x}} s: %{{z:.4g}} {lines[0].unit}<extra></extra>",
        }
    ]


def _shares(lines: Sequence[Column]) -> Figure:
    """Return a scale from 0 to 1 for shares in every map, so that CPUs and nodes can be compared."""
    most = max((float(np.nanmax(line.values)) for line in lines if np.isfinite(line.values).any()), default=0.0)
    return {"zmin": 0, "zmax": 100} if lines[0].unit == "%" and most <= 100 else {}


def _strip(
    placed: Sequence[_Placed], number: int, domain: tuple[float, float], layout: Figure, theme: Theme
) -> list[Figure]:
    """Draw each mark as a bar with hover text, and lines through all panels."""
    layout[f"yaxis{number}"] = {"domain": domain, "range": [0, 1], "visible": False, "fixedrange": True}
    title = {
        "text": " and ".join(sorted({f"{placed_mark.mark.kind}s" for placed_mark in placed})),
        "xref": "paper",
        "yref": "paper",
    }
    layout["annotations"].append(title | {"x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "showarrow": False})
    edges = [
        at for placed_mark in placed[:MOST_MARKS] for at in sorted({placed_mark.begin, placed_mark.end}) if at >= 0
    ]
    line = {"color": theme.series[1], "width": 1, "dash": "dot"}
    layout["shapes"] += [
        {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line, "opacity": 0.6}
        for at in edges
    ]
    # A gap after each mark, or Plotly would connect them.
    spans = [(max(placed_mark.begin, 0.0), max(placed_mark.end, 0.0)) for placed_mark in placed]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "marks",
            "showlegend": False,
            "x": [at for span in spans for at in (*span, None)],
            "y": [0.5, 0.5, None] * len(placed),
            "text": [
                text for placed_mark in placed for text in (_hover_text(placed_mark), _hover_text(placed_mark), "")
            ],
            "yaxis": f"y{number}",
            "hovertemplate": "%{text}<extra></extra>",
            "line": {"color": theme.series[1], "width": 6},
            "marker": {"color": theme.series[1], "symbol": "line-ns", "size": 9, "line": {"width": 2}},
        }
    ]


def _hover_text(placed: _Placed) -> str:
    """Return the hover text of a mark. Labels may come from the server and must not be parsed as markup."""
    mark = placed.mark
    label = mark.label.replace("<", "&lt;")
    figures = [f"{name.replace('_', ' ')} {value:,g}" for name, value in sorted(mark.data.items())]
    return "<br>".join([f"{mark.kind} at {placed.begin:.1f} s: {label}", *figures])
