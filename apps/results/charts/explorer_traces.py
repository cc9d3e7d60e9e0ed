"""The traces of an explorer's chart: points with means, boxes, lines of means, or cells of a heat map. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from apps.results.charts.boxes import box_of, drawn_of
from apps.results.charts.themes import DASHES, SYMBOLS, Figure, Theme
from apps.results.explore.explorer import BLOCK, MOST_STRIP, ORDER, Explored, ObservedRun, RunGroup, ideal_scaling
from apps.results.explore.level_numbers import doubling, numeric

MOST_COLOURS = 6
MOST_JOINED = 12  # blocks; more lines are unreadable
MOST_BESIDE_LINES, BESIDE_LINES = 200, -0.25  # runs drawn next to lines of means, and their offset
MOST_CELLS = 150  # cells of a heat map with their values as text
OUTSIDE = 400  # outliers that are drawn, of all boxes


def numbers_of(explored: Explored) -> list[float] | None:
    """Return the x-axis as numbers; None if its labels are categories."""
    return numeric(explored.xs) if explored.view.shape in ("strip", "lines") else None


def coloured_traces(
    explored: Explored, own: list[RunGroup], colours: list[str], axes: dict[str, str], theme: Theme
) -> list[Figure]:
    """Return the groups of one facet, colour by colour, in the shape of the view."""
    data: list[Figure] = []
    for number, colour in enumerate(colours):
        groups = [group for group in own if group.colour == colour]
        if not groups:
            continue
        aside = 0.0 if len(colours) == 1 else 0.5 * (number / (len(colours) - 1) - 0.5)
        drawn = {"box": _boxes, "lines": _lines}.get(explored.view.shape, _strip)(
            explored, groups, aside, number, theme
        )
        data += [trace | axes | {"legendgroup": colour} for trace in drawn]
    return data


def _at(explored: Explored, group: RunGroup, aside: float) -> float:
    """Return the position of a group, offset from those of other colours by a share of a step, of a size, or of the
    axis."""
    numbers, place = numbers_of(explored), explored.xs.index(group.x)
    if not numbers:
        return place + aside
    if doubling(numbers):
        return numbers[place] * (1 + aside / 8)
    return numbers[place] + aside * (max(numbers) - min(numbers)) / 24


def _strip(explored: Explored, groups: list[RunGroup], aside: float, number: int, theme: Theme) -> list[Figure]:
    """Return each run with mean and interval next to it. Few blocks are connected by lines."""
    points = [_points(explored, groups, aside, number, theme)]
    joined = _joined(explored, groups, aside, number, theme)
    return [*joined, *points, *_means(explored, groups, aside, number, theme, "markers")]


def _points(explored: Explored, groups: list[RunGroup], aside: float, number: int, theme: Theme) -> Figure:
    placed = [(group, run) for group in groups for run in group.runs]
    if len(explored.runs) > MOST_STRIP:
        sample = np.random.default_rng(0).permutation(len(placed))[: MOST_STRIP * len(placed) // len(explored.runs)]
        placed = [placed[place] for place in np.sort(sample)]
    plain = explored.view.x in (ORDER, BLOCK)
    x = [
        run.position + 1 if explored.view.x == ORDER else run.block + 1 if plain else _at(explored, group, aside)
        for group, run in placed
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": groups[0].colour or "one run",
        "x": x,
        "y": [run.value for _, run in placed],
        "customdata": [_custom(run) for _, run in placed],
        "hovertemplate": _hover(explored),
        "marker": {
            "color": theme.series[number],
            "symbol": f"{SYMBOLS[number]}-open",
            "size": 8 if len(placed) < 500 else 5,
            "line": {"width": 1.5},
        },
    }


def _custom(run: ObservedRun) -> list[Any]:
    levels = ", ".join(run.cell.values()).replace("<", "&lt;")
    return [str(run.run), run.block + 1, run.position + 1, levels, run.host]


def _hover(explored: Explored) -> str:
    unit = "%" if explored.relative else explored.unit
    run = "block %{customdata[1]}, run %{customdata[2]} on %{customdata[4]}"
    return f"%{{y:,.5g}} {unit}<br>%{{customdata[3]}}<br>{run}<extra></extra>"


def _joined(explored: Explored, groups: list[RunGroup], aside: float, number: int, theme: Theme) -> list[Figure]:
    """Return thin lines from level to level within a block, which show whether all blocks agree."""
    blocks = sorted({(run.host, run.block) for group in groups for run in group.runs})
    if explored.view.x in (ORDER, BLOCK) or len(groups) < 2 or len(blocks) > MOST_JOINED or explored.over:
        return []
    x: list[float | None] = []
    y: list[float | None] = []
    for block in blocks:
        for group in groups:
            for run in group.runs:
                if (run.host, run.block) == block:
                    x.append(_at(explored, group, aside))
                    y.append(run.value)
        x.append(None)
        y.append(None)
    line = {"color": theme.series[number], "width": 1}
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": y,
            "line": line,
            "opacity": 0.3,
            "hoverinfo": "skip",
            "showlegend": False,
            "name": "blocks",
        }
    ]


def _means(
    explored: Explored, groups: list[RunGroup], aside: float, number: int, theme: Theme, mode: str
) -> list[Figure]:
    """Return a diamond for each mean, with whiskers in a separate trace: Plotly draws caps even for intervals of
    zero length."""
    measured = [group for group in groups if group.mean is not None]
    bounded = [group for group in measured if group.low is not None]
    bare = [group for group in measured if group.low is None]
    if mode != "markers" and bare and bounded:  # a line connects all of them
        return [
            _mean_trace(explored, measured, aside, number, theme, mode),
            *_means(explored, bounded, aside, number, theme, "markers"),
        ]
    beside = aside + (0.08 if explored.view.shape == "strip" else 0.0)
    return [_mean_trace(explored, part, beside, number, theme, mode) for part in (bounded, bare) if part]


def _mean_trace(
    explored: Explored, groups: list[RunGroup], aside: float, number: int, theme: Theme, mode: str
) -> Figure:
    means, unit = [group.mean or 0.0 for group in groups], "%" if explored.relative else explored.unit
    label = f"mean and {explored.ci_of_mean}" if groups[0].low is not None else "mean"
    trace: Figure = {
        "type": "scatter",
        "mode": mode,
        "name": f"{groups[0].colour}, {label}" if groups[0].colour else label,
        "x": [_at(explored, group, aside) for group in groups],
        "y": means,
        "text": [f"{_name(group)}, n {len(group.runs)}{_interval(group)}" for group in groups],
        "hovertemplate": f"mean %{{y:,.5g}} {unit}<br>%{{text}}<extra></extra>",
        "marker": {
            "color": theme.series[number],
            "symbol": "diamond" if mode == "markers" else SYMBOLS[number],
            "size": 10,
        },
        "line": {"color": theme.series[number], "dash": DASHES[number], "width": 2},
    }
    if all(group.low is not None for group in groups):
        up = [(group.high or 0.0) - mean for group, mean in zip(groups, means, strict=True)]
        down = [mean - (group.low or 0.0) for group, mean in zip(groups, means, strict=True)]
        bars = {"type": "data", "symmetric": False, "array": up, "arrayminus": down}
        trace["error_y"] = bars | {"color": theme.series[number], "thickness": 2, "width": 6}
    return trace


def _name(group: RunGroup) -> str:
    return ", ".join(name for name in (group.facet, group.colour, group.x) if name).replace("<", "&lt;")


def _interval(group: RunGroup) -> str:
    return "" if group.low is None or group.high is None else f", 95 % {group.low:,.5g} to {group.high:,.5g}"


def _lines(explored: Explored, groups: list[RunGroup], _aside: float, number: int, theme: Theme) -> list[Figure]:
    """Return connected means, a few runs to their left, and a dashed line of ideal scaling from the fewest CPUs if
    the axis counts them."""
    means = _means(explored, groups, 0.0, number, theme, "lines+markers")
    if len(explored.runs) <= MOST_BESIDE_LINES:
        runs = _points(explored, groups, BESIDE_LINES, number, theme)
        means = [runs | {"opacity": 0.45, "showlegend": False}, *means]
    numbers, first = numbers_of(explored), groups[0]
    if number or not numbers or first.mean is None or not ideal_scaling(explored.view, explored.better):
        return means
    least = numbers[explored.xs.index(first.x)]
    ideal: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "ideal scaling",
        "x": sorted(numbers),
        "y": [first.mean * value / least for value in sorted(numbers)],
        "line": {"color": theme.text, "dash": "dash", "width": 1},
        "hovertemplate": f"ideal: %{{y:,.5g}} {explored.unit}<extra></extra>",
    }
    return [*means, ideal]


def _boxes(explored: Explored, groups: list[RunGroup], aside: float, number: int, theme: Theme) -> list[Figure]:
    """Return Tukey's boxes, and single runs beyond their whiskers."""
    boxes = [box_of([run.value for run in group.runs]) for group in groups]
    width = 0.7 / max(1, len(explored.colours[:MOST_COLOURS]))
    trace = {
        "type": "box",
        "name": groups[0].colour or "runs",
        "x": [explored.xs.index(group.x) + aside for group in groups],
        **drawn_of(boxes),
        "width": width,
        "line": {"color": theme.series[number], "width": 1.5},
        "fillcolor": "rgba(0,0,0,0)",
        "marker": {"color": theme.series[number], "symbol": SYMBOLS[number]},
        "hoverinfo": "y+name",
    }
    outside = [
        (group, run) for group, box in zip(groups, boxes, strict=True) for run in group.runs if not box.holds(run.value)
    ][:OUTSIDE]
    if not outside:
        return [trace]
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "one run",
        "showlegend": False,
        "x": [explored.xs.index(group.x) + aside for group, _ in outside],
        "y": [run.value for _, run in outside],
        "customdata": [_custom(run) for _, run in outside],
        "hovertemplate": _hover(explored),
        "marker": {"color": theme.series[number], "symbol": f"{SYMBOLS[number]}-open", "size": 5},
    }
    return [trace, points]


def _readable(z: list[list[float | None]]) -> str:
    """Return the number format of cells: 40.4k or 3.17."""
    return (
        "%{z:.3s}" if max((value for row in z for value in row if value is not None), default=0) >= 1000 else "%{z:.3g}"
    )


def heat_traces(explored: Explored, own: list[RunGroup], axes: dict[str, str], theme: Theme) -> list[Figure]:
    """Return means, or their ratios to the baseline, for every pair of levels. A cell without runs is empty."""
    rows = explored.colours if explored.view.colour else [""]
    z: list[list[float | None]] = [[None] * len(explored.xs) for _ in rows]
    counted = [[0] * len(explored.xs) for _ in rows]
    for group in own:
        row, column = rows.index(group.colour), explored.xs.index(group.x)
        z[row][column], counted[row][column] = group.mean, len(group.runs)
    unit = " %" if explored.relative else f" {explored.unit}"
    written = (
        {"texttemplate": "%{z:+.1f}" if explored.relative else _readable(z)}
        if len(rows) * len(explored.xs) <= MOST_CELLS
        else {}
    )
    return [
        {
            "type": "heatmap",
            "x": list(range(len(explored.xs))),
            "y": list(range(len(rows))),
            "z": z,
            "customdata": [
                [[name, row or "", n] for name, n in zip(explored.xs, ns, strict=True)]
                for row, ns in zip(rows, counted, strict=True)
            ],
            "hovertemplate": f"%{{customdata[1]}} %{{customdata[0]}}: %{{z:.5g}}{unit}, n %{{customdata[2]}}"
            "<extra></extra>",
            "coloraxis": "coloraxis",
            "xgap": 2,
            "ygap": 2,
            **written,
            **axes,
        }
    ]
