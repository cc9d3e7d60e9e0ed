"""The chart of a schedule: each level as a line with intervals over its campaigns, and marks at changes of the host."""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.results.answers.history.trend import Trend, TrendPoint
from apps.results.charts.themes import SYMBOLS, Figure, Theme, layout

MOST_LABELS = 4  # marks with labels; the page lists all of them
LONGEST = 40


def trend_chart(trend: Trend, theme: Theme) -> Figure:
    levels = trend.levels
    data = [
        _line([point for point in trend.points if point.level == level], place, trend.unit, theme)
        for place, level in enumerate(levels)
    ]
    drawn = layout(theme, xaxis=_dates(trend.points), yaxis={"title": {"text": trend.quantity}, "zeroline": False})
    drawn |= {
        "height": 400,
        "showlegend": len(levels) > 1,
        "legend": {"orientation": "h", "y": 1.08, "yanchor": "bottom", "x": 0},
        "shapes": [_mark(change.at, theme) for change in trend.host_changes],
        "annotations": [_label(change.at, change.summary, theme) for change in trend.host_changes[-MOST_LABELS:]],
    }
    return {"data": data, "layout": drawn}


def _dates(points: list[TrendPoint]) -> Figure:
    """Return the axis of days. Around a single campaign, the browser would show fractions of a second."""
    if len({point.at for point in points}) != 1:
        return {"type": "date"}
    ends = (points[0].at - timedelta(days=1), points[0].at + timedelta(days=1))
    return {"type": "date", "range": [f"{end:%Y-%m-%d %H:%M:%S}" for end in ends], "nticks": 3}


def _line(points: list[TrendPoint], place: int, unit: str, theme: Theme) -> Figure:
    colour = theme.series[place % len(theme.series)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": points[0].level,
        "x": [f"{point.at:%Y-%m-%d %H:%M:%S}" for point in points],
        "y": [point.mean for point in points],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [(point.high or point.mean) - point.mean for point in points],
            "arrayminus": [point.mean - (point.low or point.mean) for point in points],
            "thickness": 1.5,
            "width": 3,
            "color": colour,
        },
        "text": [f"{point.title}<br>{point.mean:,.5g} {unit}, {point.runs} runs" for point in points],
        "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
        "line": {"color": colour, "width": 1.5},
        "marker": {"color": colour, "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 8},
    }


def _mark(at: datetime, theme: Theme) -> Figure:
    time = f"{at:%Y-%m-%d %H:%M:%S}"
    place = {"x0": time, "x1": time, "yref": "paper", "y0": 0, "y1": 1}
    return {"type": "line", "layer": "below", "line": {"color": theme.text, "width": 1.5, "dash": "dot"}, **place}


def _label(at: datetime, sentence: str, theme: Theme) -> Figure:
    text = sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 1]}…"
    place = {"x": f"{at:%Y-%m-%d %H:%M:%S}", "yref": "paper", "y": 1, "xanchor": "right", "yanchor": "bottom"}
    return {"text": text, "showarrow": False, "font": {"size": 11, "color": theme.text}, **place}
