"""Charts of a comparison: the runs of each side, the interval of each difference, and distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apps.results.answers.comparison.compare import Compared
from apps.results.answers.comparison.sides import LETTERS, Arm
from apps.results.charts.themes import DASHES, SYMBOLS, Figure, Theme, foot, layout, origin_note, value_range
from common.verdicts import verdict
from common.wording import signed

MOST_POINTS = 2000  # runs of a side; of more, a sample is drawn


def letter(place: int) -> str:
    return LETTERS[place]


def runs_chart(compared: Compared, theme: Theme) -> Figure:
    """Draw every run of every side, with mean and interval. Runs of the same block of a campaign are connected."""
    data: list[Figure] = []
    if compared.paired:
        data += _joined(compared.arms, theme)
    for place, arm in enumerate(compared.arms):
        data += [_points(arm, place, compared, theme), _mean(arm, place, compared, theme)]
    axis = {
        "tickvals": list(range(len(compared.arms))),
        "ticktext": [letter(place) for place in range(len(compared.arms))],
        "range": [-0.6, len(compared.arms) - 0.4],
        "zeroline": False,
    }
    drawn = layout(
        theme, xaxis=axis, yaxis={"title": {"text": quantity(compared)}, "zeroline": False} | value_range(data)
    )
    drawn |= {"height": 420, "showlegend": False, "annotations": []}
    foot(drawn["xaxis"], origin_note(data))
    return {"data": data, "layout": drawn}


def quantity(compared: Compared) -> str:
    return (
        compared.figure
        if compared.unit in ("", compared.figure.partition(".")[2])
        else f"{compared.figure} ({compared.unit})"
    )


def _points(arm: Arm, place: int, compared: Compared, theme: Theme) -> Figure:
    step = -(-arm.n // MOST_POINTS)
    shown = arm.measured[::step]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": letter(place),
        "x": [place - 0.1] * len(shown),
        "y": [value for _, value in shown],
        "customdata": [[str(run.pk), run.block + 1, run.position + 1] for run, _ in shown],
        "hovertemplate": f"%{{y:,.5g}} {compared.unit}<br>block %{{customdata[1]}}, run %{{customdata[2]}}"
        "<extra></extra>",
        "marker": {
            "color": theme.series[place],
            "symbol": f"{SYMBOLS[place]}-open",
            "size": 9 if len(shown) < 200 else 5,
            "line": {"width": 1.5},
        },
    }


def _mean(arm: Arm, place: int, compared: Compared, theme: Theme) -> Figure:
    trace: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": f"{letter(place)}, mean",
        "x": [place + 0.1],
        "y": [arm.mean],
        "hovertemplate": f"mean %{{y:,.5g}} {compared.unit}<extra></extra>",
        "marker": {"color": theme.series[place], "symbol": "diamond", "size": 11},
    }
    if arm.low is not None and arm.high is not None and arm.mean is not None:
        bars = {"type": "data", "symmetric": False, "array": [arm.high - arm.mean], "arrayminus": [arm.mean - arm.low]}
        trace["error_y"] = bars | {"color": theme.series[place], "thickness": 2, "width": 8}
    return trace


def _joined(arms: Sequence[Arm], theme: Theme) -> list[Figure]:
    """Draw a thin line from side to side for each block with a run of both."""
    points: dict[int, list[tuple[float, float]]] = {}
    for place, arm in enumerate(arms):
        for run, value in arm.measured:
            points.setdefault(run.block, []).append((place - 0.1, value))
    x: list[float | None] = []
    y: list[float | None] = []
    for block in sorted(points):
        x += [*(at for at, _ in points[block]), None]
        y += [*(value for _, value in points[block]), None]
    line = {"color": theme.text, "width": 1}
    trace = {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "opacity": 0.25, "hoverinfo": "skip"}
    return [trace | {"name": "the same block"}]


def interval_chart(compared: Compared, theme: Theme) -> Figure:
    """Draw each difference from A as an interval, with zero and the margin."""
    bounded = [comparison for comparison in compared.comparisons if comparison.interval]
    return forest_chart(
        [(f"{letter(place)} against A", one.ratio_percent, one.interval, one.verdict)
         for place, one in enumerate(compared.comparisons, 1) if one.interval],
        compared.delta,
        f"{compared.figure}, % against A" if bounded else compared.figure,
        theme,
    )  # fmt: skip


ONE_LINE = 24  # characters of a title that fit below a chart on a phone
Row = tuple[str, float, Any, str]  # name, percent, (low, high), verdict


def forest_chart(rows: Sequence[Row], delta: float, title: str, theme: Theme) -> Figure:
    """Draw differences as a forest plot, in percent, with 95 % intervals. Grey ones are within the margin."""
    margin, names = 100 * delta, [name for name, *_ in rows]
    data = [_difference(row, place, theme) for place, row in enumerate(rows)]
    ends = [end for _, _, interval, _ in rows for end in interval]
    reach = 1.1 * max([margin * 1.5, *map(abs, ends)])
    name, against, baseline = title.partition(", % against ")
    two_lines = len(title) > ONE_LINE and bool(against)
    shown = f"{name}<br>% against {baseline}" if two_lines else title
    across = {"title": {"text": shown, "font": {"size": 12}}, "ticksuffix": " %", "zeroline": False}
    across |= {"range": [-reach, reach]}
    down = {
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "range": [len(names) - 0.4, -0.6],
        "zeroline": False,
    }
    drawn = layout(theme, xaxis=across, yaxis=down)
    band = {"type": "rect", "x0": -margin, "x1": margin, "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    zero = {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1}
    drawn |= {
        "height": 110 + 18 * two_lines + 34 * max(1, len(rows)),
        "showlegend": False,
        "margin": {"l": 70, "r": 16, "t": 24, "b": 50 + 18 * two_lines},
        "shapes": [
            band | {"fillcolor": theme.text, "opacity": 0.1, "line": {"width": 0}},
            zero | {"line": {"color": theme.text, "width": 1}},
        ],
        "annotations": [_margin(margin, theme)],
    }
    return {"data": data, "layout": drawn}


def _margin(margin: float, theme: Theme) -> Figure:
    place = {"xref": "x", "x": 0, "yref": "paper", "y": 1, "yanchor": "bottom", "xanchor": "center"}
    return {
        "text": f"the margin, ± {margin:g} %",
        "showarrow": False,
        "font": {"size": 11, "color": theme.text},
        **place,
    }


def _difference(row: Row, place: int, theme: Theme) -> Figure:
    name, percent, (low, high), answer = row
    shown = verdict(answer)
    colour = theme.text if shown.colour is None else theme.series[shown.colour]
    bars = {"type": "data", "symmetric": False, "array": [high - percent], "arrayminus": [percent - low]}
    label = f"{name}: {signed(percent)} % [{signed(low)}, {signed(high)}], {shown.word}".replace("<", "&lt;")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [percent],
        "y": [place],
        "text": [label],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colour, "symbol": shown.marker, "size": 11},
        "error_x": bars | {"color": colour, "thickness": 2, "width": 6},
    }


def ecdf_chart(compared: Compared, theme: Theme) -> Figure:
    """Draw the share of runs at or below each value for each side. A shift moves the whole curve, an outlier only
    one step."""
    data = []
    for place, arm in enumerate(compared.arms):
        values = np.sort(np.array(arm.values))
        shares = np.arange(1, len(values) + 1) / len(values)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(values) <= 60 else "lines",
                "name": f"{letter(place)}, n {len(values)}",
                "x": values,
                "y": shares,
                "line": {"color": theme.series[place], "dash": DASHES[place], "shape": "hv", "width": 2},
                "marker": {"symbol": SYMBOLS[place], "size": 6},
                "hovertemplate": f"%{{y:.0%}} of the runs are at or below %{{x:,.5g}} {compared.unit}<extra></extra>",
            }
        )
    share = {"title": {"text": "share of runs"}, "tickformat": ".0%", "range": [0, 1.03]}
    drawn = layout(theme, xaxis={"title": {"text": quantity(compared)}, "zeroline": False}, yaxis=share)
    drawn |= {"height": 360, "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}}
    return {"data": data, "layout": drawn}
