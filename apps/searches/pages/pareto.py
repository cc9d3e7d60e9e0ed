"""The chart of a search with two metrics, as a Plotly figure (a dict): its trials by both, with the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence

from apps.campaigns.design.steps import Metric
from apps.results.charts.themes import Figure, Theme, layout
from apps.searches import results
from apps.searches.pages import charts
from apps.searches.queries import FRONT, TrialRow
from stats.comparison.pareto import Front

ON_FRONT, POSSIBLE, DOMINATED = FRONT
MUTED = 0.35
Point = tuple[float, float, float]  # percent of a metric: mean, low, high


def pareto_chart(
    rows: Sequence[TrialRow], front: Front[int], metrics: Sequence[tuple[str, Metric]], theme: Theme
) -> Figure:
    """Changes of both metrics against the default. `metrics`: both names with their metrics."""
    directions = [results.sign_of(metric) for _, metric in metrics]
    own = {row.trial.number: row for row in rows if row.front}

    def points(numbers: Sequence[int], name: str, style: Figure, opacity: float = 1.0) -> Figure:
        return _points([own[number] for number in numbers if number in own], front, directions, name, style, opacity)

    data = [
        points(front.dominated, DOMINATED, {"color": theme.series[0], "symbol": "circle", "size": 7}, MUTED),
        points(front.possible, POSSIBLE, {"color": theme.series[0], "symbol": "circle-open", "size": 9}),
        points(front.best, ON_FRONT, {"color": theme.series[2], "symbol": "diamond", "size": 10}),
        _default(theme),
    ]
    on_front = next((trace for trace in data if trace["name"] == ON_FRONT), None)
    if on_front:
        on_front |= {"mode": "lines+markers", "line": {"color": theme.series[2], "width": 1.5, "dash": "dash"}}
    drawn = layout(theme, xaxis=_axis(metrics[0], theme), yaxis=_axis(metrics[1], theme))
    legend = {"orientation": "h", "y": 1.05, "yanchor": "bottom", "x": 0}
    return {"data": [trace for trace in data if trace["x"]], "layout": {**drawn, "height": 420, "legend": legend}}


def _points(
    rows: Sequence[TrialRow],
    front: Front[int],
    directions: Sequence[int],
    name: str,
    style: Figure,
    opacity: float,
) -> Figure:
    first, second = ([_point(row, front, side, directions[side]) for row in rows] for side in (0, 1))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [mean for mean, _, _ in first],
        "y": [mean for mean, _, _ in second],
        "error_x": _bars(first, style["color"]),
        "error_y": _bars(second, style["color"]),
        "marker": style,
        "opacity": opacity,
        "text": [f"{charts.name_of(row)}<br>blocks: {row.trial.blocks}" for row in rows],
        "hovertemplate": "%{text}<br>%{x:+.3g} %, %{y:+.3g} %<extra></extra>",
    }


def _point(row: TrialRow, front: Front[int], side: int, direction: int) -> Point:
    """Mean and interval in percent; without an estimate of the noise, the interval is the mean."""
    number = row.trial.number
    mean, half = front.means[number][side], (front.noise.half_widths(row.trial.blocks) or (0.0, 0.0))[side]
    ends = sorted(_percent(direction * each) for each in (mean - half, mean + half))
    return _percent(direction * mean), ends[0], ends[1]


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(min(log_ratio, 20.0))


def _bars(points: Sequence[Point], colour: str) -> Figure:
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - mean for mean, _, high in points],
        "arrayminus": [mean - low for mean, low, _ in points],
        "thickness": 1,
        "width": 3,
        "color": colour,
    }


def _default(theme: Theme) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "default",
        "x": [0.0],
        "y": [0.0],
        "marker": {"color": theme.text, "symbol": "star", "size": 12},
        "hovertemplate": "default<extra></extra>",
    }


def _axis(named: tuple[str, Metric], theme: Theme) -> Figure:
    name, metric = named
    return {
        "title": {"text": f"{name} (%), {metric.better} is better"},
        "zeroline": True,
        "zerolinecolor": theme.text,
    }
