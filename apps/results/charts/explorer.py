"""The chart of the explorer: points with means, boxes, lines of means or a heat map; facets side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from apps.results.charts.explorer_traces import MOST_COLOURS, coloured_traces, heat_traces, numbers_of
from apps.results.charts.themes import (
    LOGARITHMIC,
    Figure,
    Theme,
    foot,
    layout,
    origin_note,
    value_range,
)
from apps.results.explore.explorer import (
    BLOCK,
    MOST_STRIP,
    ORDER,
    Explored,
    title,
)
from apps.results.explore.level_numbers import doubling

HEIGHT_PX, STACKED_PX = 460, 360
NARROW_PX = 700  # in narrower windows, facets are stacked
GAP, STACKED_GAP = 0.04, 0.07
DECADES = 5  # a shorter logarithmic axis would have only one tick
MOST_FACETS = 12


def explorer_chart(explored: Explored, theme: Theme, stacked: bool = False) -> Figure:
    """Draw facets side by side, or `stacked` on a narrow page.

    At most MOST_FACETS facets with MOST_COLOURS colours each; a note tells what is left out."""
    drawn = layout(theme)
    facets, colours = explored.facets[:MOST_FACETS], explored.colours[:MOST_COLOURS]
    drawn |= {"height": HEIGHT_PX if not stacked else STACKED_PX * len(facets) + 80, "annotations": []}
    drawn |= {"showlegend": bool(explored.view.colour) or explored.view.shape != "heat", "boxmode": "group"}
    drawn["legend"] = {"orientation": "h", "y": 1.02 if len(facets) == 1 else 1.06, "yanchor": "bottom", "x": 0}
    if explored.view.colour:
        drawn["legend"]["title"] = {"text": title(explored.view.colour)}
    data: list[Figure] = []
    for place, facet in enumerate(facets):
        own = [group for group in explored.groups if group.facet == facet]
        axes = _axes(explored, place, len(facets), stacked, drawn, theme)
        if explored.view.facet:
            drawn["annotations"].append(_heading(explored, facet, axes, drawn))
        data += (
            heat_traces(explored, own, axes, theme)
            if explored.view.shape == "heat"
            else coloured_traces(explored, own, colours, axes, theme)
        )
    _legend_once(data)
    if explored.view.shape != "heat":
        for name in [name for name in drawn if name.startswith("yaxis")]:
            drawn[name] |= value_range(data)
    _notes(explored, drawn, data, theme)
    return {"data": data, "layout": drawn}


def _axes(explored: Explored, place: int, count: int, stacked: bool, drawn: Figure, theme: Theme) -> dict[str, str]:
    number = "" if place == 0 else str(place + 1)
    gap = STACKED_GAP if stacked else GAP
    share = (1 - gap * (count - 1)) / count
    low = place * (share + gap)
    across, down = ([0.0, 1.0], [max(0.0, 1 - low - share), 1 - low]) if stacked else ([low, low + share], [0.0, 1.0])
    grid = {"gridcolor": theme.grid, "linecolor": theme.grid, "automargin": True, "zeroline": False}
    first, last = place == 0 or stacked, place == count - 1 or not stacked
    drawn[f"xaxis{number}"] = grid | {
        "domain": across,
        "anchor": f"y{number}",
        "title": {"text": title(explored.view.x) if last else ""},
        **_x_axis(explored),
    }
    drawn[f"yaxis{number}"] = grid | {
        "domain": down,
        "anchor": f"x{number}",
        "showticklabels": first,
        **_y_axis(explored, first),
    }
    if place:
        drawn[f"yaxis{number}"]["matches"] = "y"
    return {"xaxis": f"x{number}", "yaxis": f"y{number}"}


def _x_axis(explored: Explored) -> Figure:
    """Return a numeric axis, logarithmic if its values double, or a categorical one in the order of levels. Boxes
    need one step per level."""
    if explored.view.x in (ORDER, BLOCK):
        return {}
    numbers = numbers_of(explored)
    if numbers and doubling(numbers):
        span = math.log10(max(numbers)), math.log10(min(numbers))
        pad = 0.06 * (span[0] - span[1])
        return {
            "type": "log",
            "tickvals": numbers,
            "ticktext": _apart(explored.xs, [math.log(number) for number in numbers]),
            "range": [span[1] - pad, span[0] + pad],
        }
    if numbers:
        pad = 0.06 * (max(numbers) - min(numbers))
        texts = _apart(explored.xs, numbers)
        return {"tickvals": numbers, "ticktext": texts, "range": [min(numbers) - pad, max(numbers) + pad]}
    return {"tickvals": list(range(len(explored.xs))), "ticktext": explored.xs, "range": [-0.6, len(explored.xs) - 0.4]}


def _apart(labels: Sequence[str], positions: Sequence[float]) -> list[str]:
    """Return labels without those that would overlap. Every point still shows its own in its hover text."""
    last, least = math.inf, (max(positions) - min(positions)) / 24
    texts = dict.fromkeys(positions, "")
    for place in sorted(positions, reverse=True):
        if last - place >= least:
            texts[place], last = labels[list(positions).index(place)], place
    return [texts[place] for place in positions]


def _y_axis(explored: Explored, first: bool) -> Figure:
    if explored.view.shape == "heat":
        names = explored.colours if explored.view.colour else [""]
        return {
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "title": {"text": title(explored.view.colour) if first else ""},
        }
    axis: Figure = {"title": {"text": explored.quantity if first else ""}}
    if explored.relative:
        return axis | {"ticksuffix": " %", "zeroline": True}
    values = [run.value for run in explored.runs]
    latency = explored.unit in ("ms", "us", "ns", "s") and explored.better == "lower"
    if latency and values and min(values) > 0 and max(values) >= DECADES * min(values):
        return axis | LOGARITHMIC
    return axis


def _heading(explored: Explored, facet: str, axes: dict[str, str], drawn: Figure) -> Figure:
    place = {"xref": f"{axes['xaxis']} domain", "yref": f"{axes['yaxis']} domain", "x": 0, "y": 1, "xanchor": "left"}
    text = f"{title(explored.view.facet)}: {facet}".replace("<", "&lt;")
    return {"text": f"<b>{text}</b>", "showarrow": False, "yanchor": "bottom", **place}


def _legend_once(data: list[Figure]) -> None:
    """Show each colour once in the legend, for any number of facets."""
    in_legend: set[tuple[str, str]] = set()
    for trace in data:
        key = (trace.get("name", ""), trace["type"])
        if key in in_legend:
            trace["showlegend"] = False
        in_legend.add(key)


def _notes(explored: Explored, drawn: Figure, data: list[Figure], theme: Theme) -> None:
    notes = []
    if explored.view.shape == "heat":
        bar = {"title": {"text": explored.quantity, "side": "right"}, "thickness": 14}
        drawn["coloraxis"] = {"colorscale": theme.heat, "colorbar": bar}
    elif not explored.relative:
        notes.append(origin_note(data))
    if explored.view.shape == "strip" and len(explored.runs) > MOST_STRIP:
        notes.append(f"{MOST_STRIP} of {len(explored.runs)} runs drawn; means include all")
    if len(explored.facets) > MOST_FACETS or (len(explored.colours) > MOST_COLOURS and explored.view.shape != "heat"):
        notes.append(f"the first {MOST_FACETS} facets and {MOST_COLOURS} colours are drawn; the table has all")
    below = [axis for name, axis in drawn.items() if name.startswith("xaxis") and axis["title"]["text"]]
    foot(below[len(below) // 2], "; ".join(filter(None, notes)))
