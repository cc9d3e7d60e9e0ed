"""What somebody explores: points with means, boxes, lines of means or a heat map, side by side for each facet."""

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
NARROW_PX = 700  # below this facets stand one below the other
GAP, STACKED_GAP = 0.04, 0.07
DECADES = 5  # a shorter logarithmic axis would have one tick
MOST_FACETS = 12


def explorer_chart(found: Explored, look: Theme, stacked: bool = False) -> Figure:
    """Facets side by side, or `stacked` on a narrow page: the first MOST_FACETS of them, each with at most MOST_COLOURS
    colours; what is left out is told in a note."""
    drawn = layout(look)
    facets, colours = found.facets[:MOST_FACETS], found.colours[:MOST_COLOURS]
    drawn |= {"height": HEIGHT_PX if not stacked else STACKED_PX * len(facets) + 80, "annotations": []}
    drawn |= {"showlegend": bool(found.view.colour) or found.view.shape != "heat", "boxmode": "group"}
    drawn["legend"] = {"orientation": "h", "y": 1.02 if len(facets) == 1 else 1.06, "yanchor": "bottom", "x": 0}
    if found.view.colour:
        drawn["legend"]["title"] = {"text": title(found.view.colour)}
    data: list[Figure] = []
    for place, facet in enumerate(facets):
        own = [group for group in found.groups if group.facet == facet]
        axes = _axes(found, place, len(facets), stacked, drawn, look)
        if found.view.facet:
            drawn["annotations"].append(_heading(found, facet, axes, drawn))
        data += (
            heat_traces(found, own, axes, look)
            if found.view.shape == "heat"
            else coloured_traces(found, own, colours, axes, look)
        )
    _legend_once(data)
    if found.view.shape != "heat":
        for name in [name for name in drawn if name.startswith("yaxis")]:
            drawn[name] |= value_range(data)
    _notes(found, drawn, data, look)
    return {"data": data, "layout": drawn}


def _axes(found: Explored, place: int, count: int, stacked: bool, drawn: Figure, look: Theme) -> dict[str, str]:
    number = "" if place == 0 else str(place + 1)
    gap = STACKED_GAP if stacked else GAP
    share = (1 - gap * (count - 1)) / count
    low = place * (share + gap)
    across, down = ([0.0, 1.0], [max(0.0, 1 - low - share), 1 - low]) if stacked else ([low, low + share], [0.0, 1.0])
    grid = {"gridcolor": look.grid, "linecolor": look.grid, "automargin": True, "zeroline": False}
    first, last = place == 0 or stacked, place == count - 1 or not stacked
    drawn[f"xaxis{number}"] = grid | {
        "domain": across,
        "anchor": f"y{number}",
        "title": {"text": title(found.view.x) if last else ""},
        **_x_axis(found),
    }
    drawn[f"yaxis{number}"] = grid | {
        "domain": down,
        "anchor": f"x{number}",
        "showticklabels": first,
        **_y_axis(found, first),
    }
    if place:
        drawn[f"yaxis{number}"]["matches"] = "y"
    return {"xaxis": f"x{number}", "yaxis": f"y{number}"}


def _x_axis(found: Explored) -> Figure:
    """Numbers on an axis of numbers, logarithmic where they double; other levels in their order. Boxes need one step
    for each level."""
    if found.view.x in (ORDER, BLOCK):
        return {}
    numbers = numbers_of(found)
    if numbers and doubling(numbers):
        span = math.log10(max(numbers)), math.log10(min(numbers))
        pad = 0.06 * (span[0] - span[1])
        return {
            "type": "log",
            "tickvals": numbers,
            "ticktext": _apart(found.xs, [math.log(number) for number in numbers]),
            "range": [span[1] - pad, span[0] + pad],
        }
    if numbers:
        pad = 0.06 * (max(numbers) - min(numbers))
        texts = _apart(found.xs, numbers)
        return {"tickvals": numbers, "ticktext": texts, "range": [min(numbers) - pad, max(numbers) + pad]}
    return {"tickvals": list(range(len(found.xs))), "ticktext": found.xs, "range": [-0.6, len(found.xs) - 0.4]}


def _apart(labels: Sequence[str], places: Sequence[float]) -> list[str]:
    """Labels that would stand on each other are left out of the axis; every point still says its own."""
    last, least = math.inf, (max(places) - min(places)) / 24
    texts = dict.fromkeys(places, "")
    for place in sorted(places, reverse=True):
        if last - place >= least:
            texts[place], last = labels[list(places).index(place)], place
    return [texts[place] for place in places]


def _y_axis(found: Explored, first: bool) -> Figure:
    if found.view.shape == "heat":
        names = found.colours if found.view.colour else [""]
        return {
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "title": {"text": title(found.view.colour) if first else ""},
        }
    axis: Figure = {"title": {"text": found.quantity if first else ""}}
    if found.relative:
        return axis | {"ticksuffix": " %", "zeroline": True}
    values = [run.value for run in found.runs]
    latency = found.unit in ("ms", "us", "ns", "s") and found.better == "lower"
    if latency and values and min(values) > 0 and max(values) >= DECADES * min(values):
        return axis | LOGARITHMIC
    return axis


def _heading(found: Explored, facet: str, axes: dict[str, str], drawn: Figure) -> Figure:
    place = {"xref": f"{axes['xaxis']} domain", "yref": f"{axes['yaxis']} domain", "x": 0, "y": 1, "xanchor": "left"}
    text = f"{title(found.view.facet)}: {facet}".replace("<", "&lt;")
    return {"text": f"<b>{text}</b>", "showarrow": False, "yanchor": "bottom", **place}


def _legend_once(data: list[Figure]) -> None:
    """Each colour once in the legend, however many facets have it."""
    seen: set[tuple[str, str]] = set()
    for trace in data:
        key = (trace.get("name", ""), trace["type"])
        if key in seen:
            trace["showlegend"] = False
        seen.add(key)


def _notes(found: Explored, drawn: Figure, data: list[Figure], look: Theme) -> None:
    told = []
    if found.view.shape == "heat":
        bar = {"title": {"text": found.quantity, "side": "right"}, "thickness": 14}
        drawn["coloraxis"] = {"colorscale": look.heat, "colorbar": bar}
    elif not found.relative:
        told.append(origin_note(data))
    if found.view.shape == "strip" and len(found.runs) > MOST_STRIP:
        told.append(f"{MOST_STRIP} of {len(found.runs)} runs drawn; means include all")
    if len(found.facets) > MOST_FACETS or (len(found.colours) > MOST_COLOURS and found.view.shape != "heat"):
        told.append(f"the first {MOST_FACETS} facets and {MOST_COLOURS} colours are drawn; the table has all")
    below = [axis for name, axis in drawn.items() if name.startswith("xaxis") and axis["title"]["text"]]
    foot(below[len(below) // 2], "; ".join(filter(None, told)))
