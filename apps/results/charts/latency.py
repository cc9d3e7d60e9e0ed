"""Charts of latency distributions: by percentile on an axis of nines, over time, and by statement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.results.charts.themes import (
    DASHES,
    LOGARITHMIC,
    SYMBOLS,
    WIDTH_PX,
    Figure,
    Theme,
    foot,
    layout,
    visible_range,
)
from apps.results.runs import thin
from apps.results.runs.latencies import Curve, Heat, StatementLatency
from apps.results.runs.time_axis import Axis

TICKS = (0, 50, 90, 99, 99.9, 99.99, 99.999)
MOST_CURVES, MOST_COLUMNS = 6, 1000
# Of a heat map: the share of transactions at either end that may count as outliers, and how far the plot goes beyond
# the others, as a share of their height, and at least as a logarithm. Outliers have a row after a gap.
TAIL, BESIDE, LEAST_ROOM = 0.001, 0.15, 0.05
GAP_SHARE, ROW_SHARE = 0.03, 0.06
# Names of statements next to their bars: share of the width, and size of letters.
LABEL_SHARE, LETTER_PX, LEAST_LETTERS, LONGEST_SQL = 0.42, 6.5, 20, 46


def nines_chart(curves: Sequence[Curve], theme: Theme) -> Figure:
    """Draw latency by percentile. Each nine takes the same space, because runs differ in the tail."""
    shown = curves[:MOST_CURVES]
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"{curve.name}, n {curve.count:,}".replace("<", "&lt;"),
            "x": [_nine(percent) for percent in curve.percents],
            "y": curve.ms,
            "text": [f"p{percent:g}" for percent in curve.percents],
            "hovertemplate": "%{text}: %{y:,.4g} ms<extra></extra>",
            "line": {"color": theme.series[place], "dash": DASHES[place], "width": 2},
            "marker": {"symbol": SYMBOLS[place], "size": 5},
        }
        for place, curve in enumerate(shown)
    ]
    last = max((percent for curve in shown for percent in curve.percents), default=99.9)
    ticks = [percent for percent in TICKS if percent <= last]
    across = {"title": {"text": "percentile"}, "tickvals": [_nine(percent) for percent in ticks], "zeroline": False}
    across |= {"ticktext": [f"{percent:g} %" for percent in ticks]}
    down = {"title": {"text": "latency (ms)"}, **LOGARITHMIC}
    drawn = layout(theme, xaxis=across, yaxis=down)
    drawn |= {"height": 400, "showlegend": True, "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}}
    if len(curves) > MOST_CURVES:
        foot(drawn["xaxis"], f"the first {MOST_CURVES} of {len(curves)} curves")
    return {"data": data, "layout": drawn}


def _nine(percent: float) -> float:
    """Return the position on the axis: 0 at 0 %, 1 at 90 %, 2 at 99 %, and so on."""
    return float(-np.log10(1 - percent / 100))


def heat_chart(heat: Heat, axis: Axis, theme: Theme) -> Figure:
    """Draw transactions by time and latency on a logarithmic colour scale, lighter for more; each band is a separate
    mode.

    A zoom requests a shorter time again. Outliers far from all others share a row at the edge."""
    down = {"title": {"text": "latency (ms)"}, **LOGARITHMIC}
    across = {"title": {"text": axis.title}, **visible_range(axis)}
    drawn = layout(theme, xaxis=across, yaxis=down) | {"height": 360}
    if not heat.t:
        return {"data": [{"type": "heatmap", "x": [], "y": [], "z": []}], "layout": drawn}
    low, high = _bulk(heat)
    times = [*thin.begins(np.asarray(heat.t, dtype=np.float64), MOST_COLUMNS), heat.t[-1] + heat.width_s]
    data = [_cells(times, heat.edges[low : high + 1], heat.counts[low:high], "%{y:.3g} ms")]
    bottom, top = heat.edges[low], heat.edges[high]
    height = np.log10(top / bottom)
    ticks = {at: text for at, text in zip(*_ticks(), strict=True) if bottom <= at <= top}
    for name, rows, at, way, far in (
        ("longer", heat.counts[high:], top, 1, heat.edges[-1]),
        ("shorter", heat.counts[:low], bottom, -1, heat.edges[0]),
    ):
        if rows.sum():
            ends = sorted(float(at * 10 ** (way * share * height)) for share in (GAP_SHARE, GAP_SHARE + ROW_SHARE))
            ticks[float(np.sqrt(ends[0] * ends[1]))] = f"{'>' if way > 0 else '<'} {at:.3g}"
            description = f"{name} than {at:.3g} ms, down to {far:.3g} ms".replace("down", "up" if way > 0 else "down")
            data.append(_cells(times, ends, rows.sum(axis=0, keepdims=True), description))
            foot(drawn["xaxis"], f"{rows.sum():,.0f} of {heat.counts.sum():,.0f} transactions took {description}")
    drawn["yaxis"] |= {"tickvals": list(ticks), "ticktext": list(ticks.values())}
    return {"data": data, "layout": drawn | {"coloraxis": _counted(data, theme)}}


def _ticks() -> tuple[list[float], list[str]]:
    return LOGARITHMIC["tickvals"], LOGARITHMIC["ticktext"]


def _bulk(heat: Heat) -> tuple[int, int]:
    """Return the rows from `low` to before `high` that fill the plot: all but TAIL at either end, extended by as
    many as fit into BESIDE of their height."""
    share = np.cumsum(heat.counts.sum(axis=1)) / heat.counts.sum()
    low, high = int(np.searchsorted(share, TAIL, side="right")), int(np.searchsorted(share, 1 - TAIL)) + 1
    edges = np.log(heat.edges)
    room = max(BESIDE * (edges[high] - edges[low]), LEAST_ROOM)
    return int(np.searchsorted(edges, edges[low] - room)), int(np.searchsorted(edges, edges[high] + room, "right")) - 1


def _cells(times: Sequence[float], edges: Sequence[float], counts: NDArray[np.float64], where: str) -> Figure:
    """Return cells between edges, at the time of their seconds."""
    shown = np.asarray([thin.peaks(row, MOST_COLUMNS) for row in counts])
    with np.errstate(divide="ignore"):
        z = np.where(shown > 0, np.log10(np.maximum(shown, 1)), np.nan).astype(np.float32)
    hover = f"at %{{x:.1f}} s, {where}: %{{text:,.0f}} transactions<extra></extra>"
    cells = {"x": times, "y": edges, "z": z, "text": shown}
    return {"type": "heatmap", **cells, "coloraxis": "coloraxis", "hovertemplate": hover}


def _counted(data: Sequence[Figure], theme: Theme) -> Figure:
    """Return one colour scale for all rows."""
    most = max((int(np.ceil(np.nanmax(trace["z"]))) for trace in data if np.isfinite(trace["z"]).any()), default=0)
    bar = {"title": {"text": "transactions", "side": "right"}, "thickness": 14, "tickvals": list(range(most + 1))}
    bar |= {"ticktext": [f"{10**power:,}" for power in range(most + 1)]}
    return {"colorscale": theme.heat, "cmin": 0, "cmax": max(most, 1), "colorbar": bar}


def statement_chart(statements: Sequence[StatementLatency], theme: Theme, width: int = WIDTH_PX) -> Figure:
    """Draw a bar for each statement in the order of its script. Names take at most LABEL_SHARE of the width."""
    letters = max(LEAST_LETTERS, int(LABEL_SHARE * width / LETTER_PX))
    is_narrow = letters < LONGEST_SQL
    names = [_label(statement, letters, "<br>" if is_narrow else ": ") for statement in statements]
    trace = {
        "type": "bar",
        "orientation": "h",
        "name": "mean latency",
        "x": [statement.ms for statement in statements],
        "y": list(range(len(statements))),
        "text": [f"{statement.ms:.3g} ms" for statement in statements],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [statement.sql.replace("<", "&lt;") for statement in statements],
        "hovertemplate": "%{x:.4g} ms<br>%{customdata}<extra></extra>",
        "marker": {"color": theme.series[0]},
    }
    down = {"tickvals": list(range(len(names))), "ticktext": names, "autorange": "reversed", "tickfont": {"size": 11}}
    most = max((statement.ms for statement in statements), default=1.0)
    across = {"title": {"text": "mean latency (ms)"}, "range": [0, (1.5 if is_narrow else 1.15) * most], "nticks": 5}
    drawn = layout(theme, xaxis=across, yaxis=down)
    row_px = 40 if is_narrow else 26
    return {"data": [trace], "layout": drawn | {"height": 110 + row_px * len(names), "showlegend": False}}


def _label(statement: StatementLatency, letters: int, between: str) -> str:
    """Return name and SQL in one or two lines with at most `letters` characters each."""
    alone = between == "<br>"
    room = letters if alone else letters - len(statement.name) - len(between)
    parts = [_short(statement.name, letters), _short(statement.sql, room)]
    return between.join(part.replace("<", "&lt;") for part in parts)


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
