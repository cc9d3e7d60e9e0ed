"""The chart of repeated runs on a host: each run in order of time, and the levels between changes."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import numpy as np

from apps.results.answers.history.baselines import Baseline
from apps.results.charts.themes import Figure, Theme, layout
from common.wording import percent
from stats import ChangePoint

KNOWN, UNKNOWN = "known reason", "no known reason"
MOST_LABELS = 4  # changes with labels; more would overlap, and the page lists all of them


def baseline_chart(baseline: Baseline, theme: Theme) -> Figure:
    """Draw runs as points, the median between two changes as a line, and each change as a mark with its reason."""
    changes = baseline.changes
    drawn = layout(theme, xaxis={"type": "date"}, yaxis={"title": {"text": baseline.quantity}, "zeroline": False})
    drawn |= {
        "height": 360,
        "showlegend": False,
        "shapes": [_mark(baseline, change, theme) for change in changes],
        "annotations": [_why(baseline, change, theme) for change in changes if len(changes) <= MOST_LABELS],
    }
    return {"data": [_points(baseline, theme), _levels(baseline, changes, theme)], "layout": drawn}


def _points(baseline: Baseline, theme: Theme) -> Figure:
    environments = zip(baseline.values, baseline.environments, strict=True)
    labels = [f"{value:,.5g} {baseline.unit}<br>{where}" for value, where in environments]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "run",
        "x": [_time(at) for at in baseline.at],
        "y": baseline.values,
        "text": labels,
        "customdata": [[str(run), None, None, baseline.title] for run in baseline.runs],
        "hovertemplate": "%{x|%Y-%m-%d %H:%M}<br>%{text}<extra></extra>",
        "marker": {"color": theme.series[0], "symbol": "circle-open", "size": 8, "line": {"width": 1.5}},
    }


def _levels(baseline: Baseline, changes: list[ChangePoint], theme: Theme) -> Figure:
    """Draw a line from each change to the next."""
    x: list[str | None] = []
    y: list[float | None] = []
    medians = (
        [changes[0].before, *(change.after for change in changes)] if changes else [float(np.median(baseline.values))]
    )
    ends = [0, *(change.at for change in changes), len(baseline.at)]
    for (begin, end), median in zip(pairwise(ends), medians, strict=True):
        x += [_time(baseline.at[begin]), _time(baseline.at[end - 1]), None]
        y += [median, median, None]
    line = {"color": theme.text, "width": 2}
    trace: Figure = {"type": "scatter", "mode": "lines", "name": "median", "x": x, "y": y, "line": line}
    return trace | {"hovertemplate": f"median %{{y:,.5g}} {baseline.unit}<extra></extra>"}


def _mark(baseline: Baseline, change: ChangePoint, theme: Theme) -> Figure:
    """Draw an explained change with a solid line, any other with a dashed one."""
    place = {
        "x0": _time(baseline.at[change.at]),
        "x1": _time(baseline.at[change.at]),
        "yref": "paper",
        "y0": 0,
        "y1": 1,
    }
    line = {"color": theme.series[1], "width": 1.5, "dash": "solid" if change.why else "dash"}
    return {"type": "line", "layer": "below", "line": line, **place}


def _why(baseline: Baseline, change: ChangePoint, theme: Theme) -> Figure:
    text = f"{percent(change.change_percent)}, {KNOWN if change.why else UNKNOWN}"
    place = {"x": _time(baseline.at[change.at]), "yref": "paper", "y": 1, "xanchor": "right", "yanchor": "bottom"}
    return {"text": text, "showarrow": False, "font": {"size": 11, "color": theme.text}, **place}


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
