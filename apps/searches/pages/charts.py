"""The charts of a search: rows of trials in, Plotly figure (a dict) out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from apps.results.charts.themes import Figure, Theme, layout
from apps.searches.importance import SettingImportance
from apps.searches.models import Trial
from apps.searches.queries import TrialRow
from apps.searches.space import Dimension, Space, Value

BAD_SYMBOL, SYMBOL, PROMISING_SYMBOL = "x", "circle", "diamond"
SHADES = 5  # opacities of lines, from the worst trials to the best
FAINT = 0.25
BAD_NAME = "failed, unstable or breaks a constraint"
PANEL_PX, SLICE_PX = 300, 230  # least width and the height of a panel
BAR_MARGIN = {"l": 10, "r": 16, "t": 16, "b": 50}


def trials_chart(rows: Sequence[TrialRow], metric: str, better: int, theme: Theme) -> Figure:
    """Each trial with its interval, and the best so far. `better`: 1 if a higher value is better, else -1."""
    measured = _measured(rows)
    data = [
        _points([row for row in measured if not row.trial.is_promising], "measured", SYMBOL, theme.series[0]),
        _points([row for row in measured if row.trial.is_promising], "promising", PROMISING_SYMBOL, theme.series[2]),
        _best(measured, better, theme),
        _bad([row for row in rows if row.trial.is_bad], theme),
    ]
    drawn = layout(
        theme,
        xaxis={"title": {"text": "Trial"}, "dtick": max(1, math.ceil(len(rows) / 10))},
        yaxis={
            "title": {"text": f"{metric} against the default (%)"},
            "zeroline": True,
            "zerolinecolor": theme.text,
            "range": _effects_range(measured),
        },
    )
    legend = {"orientation": "h", "y": 1.05, "yanchor": "bottom", "x": 0}
    return {"data": [trace for trace in data if trace["x"]], "layout": {**drawn, "height": 380, "legend": legend}}


def _effects_range(rows: Sequence[TrialRow]) -> list[float]:
    """The range of the axis: all means, and intervals up to half the extent of the means beyond them. So one wide
    interval, which is cut off, does not hide the differences between trials."""
    means = [0.0, *(row.percent for row in rows if row.percent is not None)]
    extent = max(means) - min(means) or 1.0
    low = min([*means, *(row.low for row in rows if row.low is not None)])
    high = max([*means, *(row.high for row in rows if row.high is not None)])
    return [
        max(low, min(means) - extent / 2) - extent / 20,
        min(high, max(means) + extent / 2) + extent / 20,
    ]


def _measured(rows: Sequence[TrialRow]) -> list[TrialRow]:
    return [row for row in rows if row.trial.state == Trial.State.MEASURED and row.percent is not None]


def name_of(row: TrialRow) -> str:
    """ "trial 3: work_mem=16MB, jit=off"."""
    return f"{row.trial.label}: {row.text}".replace("<", "&lt;")


def _points(rows: Sequence[TrialRow], name: str, symbol: str, colour: str) -> Figure:
    bars = {"array": [_above(row) for row in rows], "arrayminus": [_below(row) for row in rows]}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row.trial.number for row in rows],
        "y": [row.percent for row in rows],
        "error_y": {"type": "data", "symmetric": False, **bars, "thickness": 1.5, "width": 3, "color": colour},
        "marker": {"color": colour, "symbol": symbol, "size": 8},
        "text": [f"{name_of(row)}<br>blocks: {row.trial.blocks}" for row in rows],
        "hovertemplate": "%{text}<br>%{y:+.3g} %<extra></extra>",
    }


def _above(row: TrialRow) -> float:
    return 0.0 if row.high is None or row.percent is None else row.high - row.percent


def _below(row: TrialRow) -> float:
    return 0.0 if row.low is None or row.percent is None else row.percent - row.low


def _best(rows: Sequence[TrialRow], better: int, theme: Theme) -> Figure:
    """For each trial the best result among it and the earlier ones; the default counts as 0."""
    best, effects = 0.0, []
    for row in rows:
        best = better * max(better * best, better * (row.percent or 0.0))
        effects.append(best)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": [row.trial.number for row in rows],
        "y": effects,
        "line": {"color": theme.text, "width": 1.5, "dash": "dash", "shape": "hv"},
        "hoverinfo": "skip",
    }


def _bad(rows: Sequence[TrialRow], theme: Theme) -> Figure:
    """Bad trials on the line of the default, because their figures do not count."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": BAD_NAME,
        "x": [row.trial.number for row in rows],
        "y": [0.0 for _ in rows],
        "marker": {"color": theme.series[1], "symbol": BAD_SYMBOL, "size": 9},
        "text": [f"{name_of(row)}<br>{row.trial.get_state_display()}" for row in rows],
        "hovertemplate": "%{text}<extra></extra>",
    }


def parallel_chart(rows: Sequence[TrialRow], space: Space, theme: Theme) -> Figure:
    """Parallel coordinates: one line per trial across all settings; the better a trial, the stronger its line."""
    ranked = sorted(_measured(rows), key=lambda row: row.trial.log_ratio or 0.0)
    bad = [row for row in rows if row.trial.is_bad]
    data = [_line(row, space, theme.series[1], 0.5, "dot") for row in bad]
    data += [
        _line(row, space, theme.series[0], _opacity(rank, len(ranked)), "solid") for rank, row in enumerate(ranked, 1)
    ]
    drawn = layout(theme, xaxis={"type": "category"}, yaxis={"range": [-0.08, 1.08], "visible": False})
    ends = [note for dimension in space.dimensions for note in _ends(dimension, theme)]
    return {"data": data, "layout": {**drawn, "height": 380, "showlegend": False, "annotations": ends}}


def importance_chart(settings: Sequence[SettingImportance], theme: Theme) -> Figure:
    """A bar for each setting with its interval, most important on top."""
    rows = list(reversed(settings))
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [row.percent for row in rows],
        "y": [row.name for row in rows],
        "marker": {"color": theme.series[0]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [row.high - row.percent for row in rows],
            "arrayminus": [row.percent - row.low for row in rows],
            "color": theme.text,
            "thickness": 1.5,
            "width": 5,
        },
        "customdata": [[row.low, row.high] for row in rows],
        "hovertemplate": "%{y}: %{x:.3g} %<br>95 % credible interval: %{customdata[0]:.3g} to %{customdata[1]:.3g} %"
        "<extra></extra>",
    }
    drawn = layout(
        theme,
        xaxis={"title": {"text": "Share (%)"}, "rangemode": "tozero"},
        yaxis={"type": "category", "ticklabelposition": "outside"},
    )
    return {"data": [bars], "layout": {**drawn, "height": 110 + 34 * len(rows), "margin": BAR_MARGIN, "bargap": 0.4}}


def slices_chart(rows: Sequence[TrialRow], space: Space, metric: str, width_px: int, theme: Theme) -> Figure:
    """A panel for each setting: the effect of each trial by its value."""
    count = len(space.dimensions)
    across = max(1, min(count, width_px // PANEL_PX))
    lines = math.ceil(count / across)
    drawn = layout(theme)
    data: list[Figure] = []
    for place, each in enumerate(space.dimensions):
        axes = _panel_axes(place, across, lines, each, metric, drawn, theme)
        own = [row for row in rows if each.name in row.trial.values]
        data += [trace | axes | {"showlegend": place == 0} for trace in _slice(own, each, theme)]
    legend = {"orientation": "h", "y": 1 + 20 / (lines * SLICE_PX), "yanchor": "bottom", "x": 0}
    return {"data": data, "layout": {**drawn, "height": 90 + lines * SLICE_PX, "legend": legend}}


def _panel_axes(
    place: int, across: int, lines: int, each: Dimension, metric: str, drawn: Figure, theme: Theme
) -> dict[str, str]:
    """Add the axes of a panel to the layout."""
    number = "" if place == 0 else str(place + 1)
    column, line = place % across, place // across
    width, height = 1 / across, 1 / lines
    grid = {"gridcolor": theme.grid, "linecolor": theme.grid, "zeroline": False}
    ends: tuple[Value, ...] = each.choices if each.kind == "choice" else (each.low, each.high)
    drawn[f"xaxis{number}"] = grid | {
        "domain": [column * width + (0.03 if column else 0), (column + 1) * width - 0.01],
        "anchor": f"y{number}",
        "title": {"text": each.name, "standoff": 4},
        "range": [-0.08, 1.08],
        "tickvals": [each.position(end) for end in ends],
        "ticktext": [each.text(end) for end in ends],
        "tickangle": 0,
    }
    top = 1 - line * height
    drawn[f"yaxis{number}"] = grid | {
        "domain": [top - height + 60 / (lines * SLICE_PX), top],
        "anchor": f"x{number}",
        "title": {"text": f"{metric} (%)" if column == 0 else ""},
        "showticklabels": column == 0,
        "zeroline": True,
        "zerolinecolor": theme.text,
        "automargin": True,
        **({"matches": "y"} if place else {}),
    }
    return {"xaxis": f"x{number}", "yaxis": f"y{number}"}


def _slice(rows: Sequence[TrialRow], each: Dimension, theme: Theme) -> list[Figure]:
    measured = _measured(rows)
    groups = [
        ("measured", SYMBOL, theme.series[0], [row for row in measured if not row.trial.is_promising]),
        ("promising", PROMISING_SYMBOL, theme.series[2], [row for row in measured if row.trial.is_promising]),
        (BAD_NAME, BAD_SYMBOL, theme.series[1], [row for row in rows if row.trial.is_bad]),
    ]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "legendgroup": name,
            "x": [each.position(row.trial.values[each.name]) for row in own],
            "y": [0.0 if row.trial.is_bad else row.percent for row in own],
            "marker": {"color": colour, "symbol": symbol, "size": 7},
            "text": [f"{name_of(row)}<br>{_effect(row)}" for row in own],
            "hovertemplate": "%{text}<extra></extra>",
        }
        for name, symbol, colour, own in groups
    ]


def _effect(row: TrialRow) -> str:
    """ "+3.5 %", or the state of a trial whose figures do not count."""
    is_counted = row.percent is not None and not row.trial.is_bad
    return f"{row.percent:+.3g} %" if is_counted else row.trial.get_state_display()


def _opacity(rank: int, count: int) -> float:
    """From FAINT for the worst rank, 1, to fully opaque for the best fifth."""
    return FAINT + (1 - FAINT) * math.floor(SHADES * rank / count) / SHADES


def _line(row: TrialRow, space: Space, colour: str, opacity: float, dash: str) -> Figure:
    values = row.trial.values
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [dimension.name for dimension in space.dimensions],
        "y": [
            dimension.position(values[dimension.name]) if dimension.name in values else None
            for dimension in space.dimensions
        ],
        "line": {"color": colour, "width": 1 + opacity, "dash": dash},
        "marker": {"color": colour, "size": 5},
        "opacity": opacity,
        "text": [f"{name_of(row)}<br>{_effect(row)}"] * len(space.dimensions),
        "hovertemplate": "%{text}<extra></extra>",
    }


def _ends(each: Dimension, theme: Theme) -> list[Figure]:
    """The values at both ends of a setting's axis."""
    ends: tuple[Value, Value] = (each.low, each.high)
    if each.kind == "choice":
        ends = (each.choices[0], each.choices[-1])
    common = {"x": each.name, "xref": "x", "showarrow": False, "font": {"size": 11, "color": theme.text}}
    return [
        {**common, "y": y, "yanchor": anchor, "text": each.text(end)}
        for end, y, anchor in zip(ends, (-0.02, 1.02), ("top", "bottom"), strict=True)
    ]
