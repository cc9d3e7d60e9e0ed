"""Charts of fio's latency distributions: an outline for each direction on a logarithmic axis, one row per section or
level."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from apps.results.charts.themes import DASHES, Figure, Theme, foot, layout
from apps.results.runs.spreads import Part, Spread, Spreads

SERIES = {"read": 0, "write": 1, "trim": 2, "mixed": 3, "": 4}
SYMBOLS = {50.0: "line-ns", 99.0: "diamond", 99.9: "triangle-left"}
ROW_PX, HEAD_PX, FOOT_PX = 170, 40, 60
GAP = 0.2  # of a row, for its name
BELOW = 0.16  # of the highest outline, for the percentiles of one direction
SHORTEST_MS = 1e-6  # a logarithmic axis has no 0


def spread_chart(spreads: Spreads, theme: Theme) -> Figure:
    """Draw the outlines. The area between two latencies is the share of I/Os: the height is the share per doubling.

    All rows have one scale. p50, p99 and p99.9 are below each outline."""
    rows = spreads.rows
    inner = ROW_PX * max(1, len(rows))
    ticks = {"type": "log", "exponentformat": "none", "zeroline": False}
    drawn = layout(theme, xaxis=ticks | {"title": {"text": "completion latency (ms)"}, "anchor": f"y{len(rows) or 1}"})
    drawn |= {"height": inner + HEAD_PX + FOOT_PX, "showlegend": True, "annotations": []}
    drawn["margin"] = {"l": 64, "r": 16, "t": HEAD_PX, "b": FOOT_PX}
    drawn["legend"] = {"orientation": "h", "x": 0, "y": 1 + 4 / inner, "yanchor": "bottom"}
    highest = max((_height(part) for entry in spreads.entries for part in entry.parts), default=1.0)
    data: list[Figure] = []
    for place, row in enumerate(rows):
        own = [entry for entry in spreads.entries if entry.row == row]
        bottom = 1 - (place + 1) / len(rows)
        _axis(place + 1, (bottom, bottom + (1 - GAP) / len(rows)), highest, own, drawn)
        drawn["annotations"].append(_name(row, own, bottom + (1 - GAP) / len(rows)))
        for line, one in enumerate(own):
            data += _drawn(one, f"y{place + 1 if place else ''}", -highest * BELOW * (line + 0.6), theme)
    _legend_once(data)
    foot(drawn["xaxis"], spreads.note)
    return {"data": data, "layout": drawn}


def _axis(number: int, domain: tuple[float, float], highest: float, own: Sequence[Spread], drawn: Figure) -> None:
    top = _rounded(highest)
    drawn[f"yaxis{number if number > 1 else ''}"] = {
        "domain": domain,
        "range": [-highest * BELOW * (len(own) + 0.2), highest * 1.05],
        "tickvals": [0, top / 2, top],
        "ticktext": ["0", f"{50 * top:.3g} %", f"{100 * top:.3g} %"],
        "gridcolor": drawn["xaxis"]["gridcolor"],
        "zeroline": False,
        "fixedrange": True,
        "title": {"text": "per doubling", "font": {"size": 11}} if number == 1 else {},
    }


def _rounded(highest: float) -> float:
    """Return the largest one-digit figure within the outline."""
    power = 10.0 ** math.floor(math.log10(highest)) if highest > 0 else 1.0
    return math.floor(highest / power + 1e-9) * power


def _name(row: str, own: Sequence[Spread], y: float) -> Figure:
    counted = ", ".join(f"{one.count:,} {one.way or 'all'}" for one in own)
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": y, "xanchor": "left", "yanchor": "bottom"}
    return {"text": f"{row}, n {counted}".replace("<", "&lt;"), "showarrow": False, **place}


def _height(part: Part) -> float:
    low, high = _ends(part)
    return part[2] / math.log2(high / low)


def _ends(part: Part) -> tuple[float, float]:
    """Return where a bar starts and ends: one that starts at 0 is as narrow as visible, one without an end is one
    doubling wide."""
    low = max(part[0], min(SHORTEST_MS, part[1] / 2))
    return low, 2 * low if math.isinf(part[1]) else part[1]


def _drawn(one: Spread, axis: str, below: float, theme: Theme) -> list[Figure]:
    colour = theme.series[SERIES[one.way]]
    dash = DASHES[SERIES[one.way]]
    name = one.way or "all directions, as fio reports them"
    traces: list[Figure] = [_outline(one, axis, name, colour, dash)] if one.parts else []
    if not one.marks:
        return traces
    return [
        *traces,
        {
            "type": "scatter",
            "mode": "lines+markers+text",
            "name": name,
            "legendgroup": name,
            "showlegend": not one.parts,
            "x": list(one.marks.values()),
            "y": [below] * len(one.marks),
            "yaxis": axis,
            "text": [f"p{at:g}" for at in one.marks],
            "textposition": "middle right",
            "textfont": {"size": 10},
            "cliponaxis": False,
            "line": {"color": colour, "width": 1, "dash": dash},
            "marker": {"color": colour, "size": 8, "symbol": [SYMBOLS[at] for at in one.marks], "line": _edge(colour)},
            "hovertemplate": f"{name} %{{text}}: %{{x:.4g}} ms<extra></extra>",
        },
    ]


def _edge(colour: str) -> Figure:
    return {"color": colour, "width": 2}


def _outline(one: Spread, axis: str, name: str, colour: str, dash: str) -> Figure:
    corners = list(_corners(one))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "x": [x for x, _, _ in corners],
        "y": [y for _, y, _ in corners],
        "text": [text for _, _, text in corners],
        "yaxis": axis,
        "line": {"color": colour, "width": 1.5, "dash": dash, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": _faint(colour),
        "hovertemplate": "%{text}<extra></extra>",
    }


def _corners(one: Spread) -> Iterator[tuple[float, float, str]]:
    """Yield (latency, height, text) at the start of each step, with zero where nothing was counted, so that no line
    crosses a gap."""
    end = 0.0
    for part in one.parts:
        low, high = _ends(part)
        if low != end:
            if end:
                yield end, 0.0, ""
            yield low, 0.0, ""
        yield low, _height(part), _hover_text(one, part)
        end = high
    yield end, 0.0, ""


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def _hover_text(one: Spread, part: Part) -> str:
    low, high, share = part
    ends = f"{low:.4g} ms or more" if math.isinf(high) else f"{low:.4g} to {high:.4g} ms"
    counted = f"{round(share * one.count):,} of {one.count:,} I/Os, " if one.histogram else ""
    return f"{one.way or 'all'}: {ends}: {counted}{100 * share:.3g} %"


def _legend_once(data: Sequence[Figure]) -> None:
    in_legend: set[str] = set()
    for trace in data:
        if trace["name"] in in_legend:
            trace["showlegend"] = False
        elif trace.get("showlegend", True):
            in_legend.add(trace["name"])
