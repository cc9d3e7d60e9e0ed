"""What was run again and again on a host: each run in the order of time, and the levels between changes."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import numpy as np

from apps.results.answers.history.baselines import Baseline
from apps.results.charts.themes import Figure, Theme, layout
from common.wording import percent
from stats import Change

KNOWN, UNKNOWN = "known reason", "no known reason"
MOST_TOLD = 4  # changes with words of their own: more would stand on each other, and the page lists them


def baseline_chart(found: Baseline, look: Theme) -> Figure:
    """Runs as points, the median between two changes as a line, and each change as a mark that says why."""
    changes = found.changes
    drawn = layout(look, xaxis={"type": "date"}, yaxis={"title": {"text": found.quantity}, "zeroline": False})
    drawn |= {
        "height": 360,
        "showlegend": False,
        "shapes": [_mark(found, each, look) for each in changes],
        "annotations": [_why(found, each, look) for each in changes if len(changes) <= MOST_TOLD],
    }
    return {"data": [_points(found, look), _levels(found, changes, look)], "layout": drawn}


def _points(found: Baseline, look: Theme) -> Figure:
    environments = zip(found.values, found.environments, strict=True)
    told = [f"{value:,.5g} {found.unit}<br>{where}" for value, where in environments]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "run",
        "x": [_time(at) for at in found.at],
        "y": found.values,
        "text": told,
        "customdata": [[str(run), None, None, found.title] for run in found.runs],
        "hovertemplate": "%{x|%Y-%m-%d %H:%M}<br>%{text}<extra></extra>",
        "marker": {"color": look.series[0], "symbol": "circle-open", "size": 8, "line": {"width": 1.5}},
    }


def _levels(found: Baseline, changes: list[Change], look: Theme) -> Figure:
    """From each change to the next."""
    x: list[str | None] = []
    y: list[float | None] = []
    medians = [changes[0].before, *(each.after for each in changes)] if changes else [float(np.median(found.values))]
    ends = [0, *(each.at for each in changes), len(found.at)]
    for (begin, end), median in zip(pairwise(ends), medians, strict=True):
        x += [_time(found.at[begin]), _time(found.at[end - 1]), None]
        y += [median, median, None]
    line = {"color": look.text, "width": 2}
    trace: Figure = {"type": "scatter", "mode": "lines", "name": "median", "x": x, "y": y, "line": line}
    return trace | {"hovertemplate": f"median %{{y:,.5g}} {found.unit}<extra></extra>"}


def _mark(found: Baseline, change: Change, look: Theme) -> Figure:
    """A change that is known is drawn through, one that nobody can explain is dashed."""
    place = {"x0": _time(found.at[change.at]), "x1": _time(found.at[change.at]), "yref": "paper", "y0": 0, "y1": 1}
    line = {"color": look.series[1], "width": 1.5, "dash": "solid" if change.why else "dash"}
    return {"type": "line", "layer": "below", "line": line, **place}


def _why(found: Baseline, change: Change, look: Theme) -> Figure:
    text = f"{percent(change.change_percent)}, {KNOWN if change.why else UNKNOWN}"
    place = {"x": _time(found.at[change.at]), "yref": "paper", "y": 1, "xanchor": "right", "yanchor": "bottom"}
    return {"text": text, "showarrow": False, "font": {"size": 11, "color": look.text}, **place}


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
