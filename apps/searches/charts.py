"""Rows of trials in, Plotly figure (a dict) out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from apps.results.charts.themes import Figure, Theme, layout
from apps.searches.models import Trial
from apps.searches.queries import TrialRow
from apps.searches.space import Dimension, Space, Value

BAD_SYMBOL, SYMBOL, PROMISING_SYMBOL = "x", "circle", "diamond"
SHADES = 5  # of lines, from the worst trials to the best
FAINT = 0.25


def trials_chart(rows: Sequence[TrialRow], metric: str, better: int, look: Theme) -> Figure:
    """Each trial with its interval, and the best so far. `better`: 1 if a higher value is better, else -1."""
    measured = [row for row in rows if row.trial.state == Trial.State.MEASURED and row.percent is not None]
    data = [
        _points([row for row in measured if not row.promising], "measured", SYMBOL, look.series[0]),
        _points([row for row in measured if row.promising], "promising", PROMISING_SYMBOL, look.series[2]),
        _best(measured, better, look),
        _bad([row for row in rows if row.trial.is_bad], look),
    ]
    drawn = layout(
        look,
        xaxis={"title": {"text": "Trial"}, "dtick": max(1, len(rows) // 20)},
        yaxis={"title": {"text": f"{metric} against the default (%)"}, "zeroline": True, "zerolinecolor": look.text},
    )
    legend = {"orientation": "h", "y": 1.05, "yanchor": "bottom", "x": 0}
    return {"data": [each for each in data if each["x"]], "layout": {**drawn, "height": 380, "legend": legend}}


def _points(rows: Sequence[TrialRow], name: str, symbol: str, colour: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row.trial.number for row in rows],
        "y": [row.percent for row in rows],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [_above(row) for row in rows],
            "arrayminus": [_below(row) for row in rows],
            "thickness": 1.5,
            "width": 3,
            "color": colour,
        },
        "marker": {"color": colour, "symbol": symbol, "size": 8},
        "text": [f"trial {row.trial.number}: {row.text}<br>{row.trial.blocks} blocks" for row in rows],
        "hovertemplate": "%{text}<br>%{y:+.3g} %<extra></extra>",
    }


def _above(row: TrialRow) -> float:
    return 0.0 if row.high is None or row.percent is None else row.high - row.percent


def _below(row: TrialRow) -> float:
    return 0.0 if row.low is None or row.percent is None else row.percent - row.low


def _best(rows: Sequence[TrialRow], better: int, look: Theme) -> Figure:
    """The best estimate among the trials up to each."""
    x, y, best = [], [], 0.0
    for row in rows:
        best = better * max(better * best, better * (row.percent or 0.0))
        x.append(row.trial.number)
        y.append(best)
    line = {"color": look.text, "width": 1.5, "dash": "dash", "shape": "hv"}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": x,
        "y": y,
        "line": line,
        "hoverinfo": "skip",
    }


def _bad(rows: Sequence[TrialRow], look: Theme) -> Figure:
    """On the line of the default: they have no figure that counts."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "failed, refused or unstable",
        "x": [row.trial.number for row in rows],
        "y": [0.0 for _ in rows],
        "marker": {"color": look.series[1], "symbol": BAD_SYMBOL, "size": 9},
        "text": [f"trial {row.trial.number}: {row.text}<br>{row.trial.get_state_display()}" for row in rows],
        "hovertemplate": "%{text}<extra></extra>",
    }


def parallel_chart(rows: Sequence[TrialRow], space: Space, look: Theme) -> Figure:
    """Parallel coordinates: a line for each trial, from setting to setting; the better it is, the stronger its line."""
    measured = [row for row in rows if row.trial.state == Trial.State.MEASURED and row.percent is not None]
    ranked = sorted(measured, key=lambda row: row.trial.log_ratio or 0.0)
    bad = [row for row in rows if row.trial.is_bad]
    data = [_line(row, space, look.series[1], 0.5, "dot") for row in bad]
    data += [
        _line(row, space, look.series[0], _strength(place, len(ranked)), "solid") for place, row in enumerate(ranked)
    ]
    drawn = layout(look, xaxis={"type": "category"}, yaxis={"range": [-0.08, 1.08], "visible": False})
    ends = [note for each in space.dimensions for note in _ends(each, look)]
    return {"data": data, "layout": {**drawn, "height": 380, "showlegend": False, "annotations": ends}}


def _strength(place: int, count: int) -> float:
    """Opacity by rank: the best fifth is drawn in full."""
    return FAINT + (1 - FAINT) * math.floor(SHADES * (place + 1) / count) / SHADES


def _line(row: TrialRow, space: Space, colour: str, opacity: float, dash: str) -> Figure:
    values = row.trial.values
    shown = [each for each in space.dimensions if each.name in values]
    effect = row.trial.get_state_display() if row.percent is None else f"{row.percent:+.3g} %"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [each.name for each in space.dimensions],
        "y": [_place(each, values[each.name]) if each in shown else None for each in space.dimensions],
        "line": {"color": colour, "width": 1 + opacity, "dash": dash},
        "marker": {"color": colour, "size": 5},
        "opacity": opacity,
        "text": [f"trial {row.trial.number}: {row.text}<br>{effect}"] * len(space.dimensions),
        "hovertemplate": "%{text}<extra></extra>",
    }


def _place(each: Dimension, value: float | str) -> float:
    """From 0 at the lower end of a setting to 1 at its upper end; choices are spread evenly."""
    if each.kind == "choice":
        return each.choices.index(str(value)) / max(1, len(each.choices) - 1)
    number, low, high = float(value), each.low, each.high
    if each.log:
        number, low, high = math.log(number), math.log(low), math.log(high)
    return (number - low) / (high - low)


def _ends(each: Dimension, look: Theme) -> list[Figure]:
    """The values at both ends of a setting's axis."""
    ends: tuple[Value, Value] = (each.low, each.high)
    if each.kind == "choice":
        ends = (each.choices[0], each.choices[-1])
    common = {"x": each.name, "xref": "x", "showarrow": False, "font": {"size": 11, "color": look.text}}
    return [
        {**common, "y": place, "yanchor": anchor, "text": each.text(end)}
        for end, place, anchor in zip(ends, (-0.02, 1.02), ("top", "bottom"), strict=True)
    ]
