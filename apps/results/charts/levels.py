"""Charts of the levels of a campaign: a point for each run, means and their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.results.answers.table import CampaignTable, LevelRow
from apps.results.charts.boxes import crowded, thinned
from apps.results.charts.compare import forest_chart
from apps.results.charts.shades import noise_band
from apps.results.charts.themes import SYMBOLS, Figure, Theme, foot, layout, origin_note, value_range
from common.wording import counted

MOST_DIFFERENCES = 24
MOST_NAMED, MOST_UPRIGHT = 3, 12  # levels of several factors whose labels fit with their names, and without


def level_chart(table: CampaignTable, theme: Theme, narrow: bool = False) -> Figure:
    """Draw one point per run, or boxes for very many, with geometric means and 95 % intervals, level by level. On a
    `narrow` page with short names."""
    runs: list[Mapping[str, Any]] = []
    means: list[Mapping[str, Any]] = []
    for place, level in enumerate(table.levels):
        runs += [{"x": place - 0.12, "point": point} for point in level.points]
        if level.mean is not None:
            means.append({"x": place + 0.12, "level": level})
    boxes: list[Figure] = []
    thinning = ""
    if crowded(table):
        boxes, runs, thinning = thinned(runs, table, theme)
    data = [*boxes, *_of_hosts(runs, table, theme), *_modes(table, theme), *_means(means, table, theme)]
    axis = {
        "tickvals": list(range(len(table.levels))),
        "ticktext": [_tick(level, len(table.levels), narrow) for level in table.levels],
        "range": [-0.5, len(table.levels) - 0.5],
        "title": {"text": table.factor_names},
        "zeroline": False,
        **({"tickangle": 0} if len(table.levels) <= MOST_UPRIGHT else {}),
    }
    quantity = table.metric if table.unit in ("", table.metric) else f"{table.metric} ({table.unit})"
    drawn = layout(theme, xaxis=axis, yaxis={"title": {"text": quantity}, "zeroline": False, **value_range(data)})
    drawn["legend"] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    band, grey = noise_band(table, theme)
    drawn["shapes"] = band
    foot(drawn["xaxis"], thinning, origin_note(data), grey)
    return {"data": data, "layout": drawn}


def _name(level: LevelRow, narrow: bool) -> str:
    """Return "clients=8, shared_buffers=256MB", or "8, 256MB" on a narrow page, where axis or table name the
    factors."""
    name = level.name or level.label
    return ", ".join(part.partition("=")[2] or part for part in name.split(", ")) if narrow else name


def _tick(level: LevelRow, count: int, narrow: bool) -> str:
    """A label of several factors takes a line for each, so that it fits below its level without being turned. Where
    levels are many, it has only the values: the title of the axis names the factors in the same order."""
    several = ", " in (level.name or level.label)
    name = _name(level, narrow or (several and count > MOST_NAMED))
    return name.replace(", ", "<br>") if several and count <= MOST_UPRIGHT else name


def difference_chart(table: CampaignTable, theme: Theme, narrow: bool = False) -> Figure:
    """Draw each level against the baseline with its interval and the margin: the MOST_DIFFERENCES largest
    differences."""
    shown = sorted(table.bounded, key=lambda level: -abs(level.relative_percent or 0))[:MOST_DIFFERENCES]
    rows = [
        (
            _name(level, narrow),
            level.relative_percent or 0.0,
            (level.relative_low, level.relative_high),
            level.verdict,
        )
        for level in table.bounded
        if level in shown
    ]
    figure = forest_chart(rows, table.delta, f"{table.metric}, % against {table.baseline}", theme)
    if len(table.bounded) > len(rows):
        foot(figure["layout"]["xaxis"], f"the {len(rows)} of {len(table.bounded)} with the largest differences")
    return figure


def _of_hosts(rows: Sequence[Mapping[str, Any]], table: CampaignTable, theme: Theme) -> list[Figure]:
    """Return one trace, or one for each of several hosts, side by side, with separate symbols and colours."""
    hosts = sorted({row["point"].host for row in rows})
    if len(hosts) < 2:
        return [_run_points(rows, table, theme)]
    traces = []
    for place, host in enumerate(hosts):
        aside = 0.16 * (place / (len(hosts) - 1) - 0.5)
        own = [{**row, "x": row["x"] + aside} for row in rows if row["point"].host == host]
        marker = {"color": _beside_means(theme, place), "symbol": f"{SYMBOLS[place % len(SYMBOLS)]}-open"}
        trace = _run_points(own, table, theme)
        traces.append({**trace, "name": f"one run on {host}", "marker": trace["marker"] | marker})
    return traces


def _beside_means(theme: Theme, place: int) -> str:
    """Return a colour that the means do not have."""
    free = [colour for colour in theme.series if colour != theme.series[1]]
    return free[place % len(free)]


def _run_points(rows: Sequence[Mapping[str, Any]], table: CampaignTable, theme: Theme) -> Figure:
    points = [row["point"] for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "one run",
        "x": [row["x"] for row in rows],
        "y": [point.value for point in points],
        "customdata": [[str(point.run), point.block + 1, point.position + 1] for point in points],
        "hovertemplate": f"%{{y:,.5g}} {table.unit}<br>block %{{customdata[1]}}, run %{{customdata[2]}}<extra></extra>",
        "marker": {"color": theme.series[0], "size": 9, "symbol": "circle-open", "line": {"width": 2}},
    }


def _modes(table: CampaignTable, theme: Theme) -> list[Figure]:
    """Return a dash at the mean of each mode, for levels whose runs have two modes."""
    marks = [
        (place - 0.12, mode, name)
        for place, level in enumerate(table.levels)
        for mode, name in zip(level.modes, ("lower", "upper"), strict=False)
    ]
    if not marks:
        return []
    trace = {
        "type": "scatter",
        "mode": "markers",
        "name": "mean of one of two modes",
        "x": [x for x, _, _ in marks],
        "y": [mode.mean for _, mode, _ in marks],
        "customdata": [[name, counted(mode.runs, "run")] for _, mode, name in marks],
        "hovertemplate": f"%{{y:,.5g}} {table.unit}<br>%{{customdata[0]}} mode, %{{customdata[1]}}<extra></extra>",
        "marker": {"symbol": "line-ew", "size": 28, "line": {"width": 2, "color": theme.series[2]}},
    }
    return [trace]


def _means(rows: Sequence[Mapping[str, Any]], table: CampaignTable, theme: Theme) -> list[Figure]:
    """Return means with an interval, and separately those with too few runs: Plotly draws caps even for intervals of
    zero length."""
    bounded = [row for row in rows if row["level"].low is not None]
    bare = [row for row in rows if row["level"].low is None]
    traces = []
    if bounded:
        traces.append(
            _diamonds(f"geometric mean, {table.ci_of_mean}", bounded, table, theme) | _whiskers(bounded, theme)
        )
    if bare:
        traces.append(_diamonds("geometric mean; too few runs for a CI", bare, table, theme))
    return traces


def _diamonds(name: str, rows: Sequence[Mapping[str, Any]], table: CampaignTable, theme: Theme) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row["x"] for row in rows],
        "y": [row["level"].mean for row in rows],
        "hovertemplate": f"%{{y:,.5g}} {table.unit}<extra>geometric mean</extra>",
        "marker": {"color": theme.series[1], "size": 10, "symbol": "diamond"},
    }


def _whiskers(rows: Sequence[Mapping[str, Any]], theme: Theme) -> Figure:
    levels = [row["level"] for row in rows]
    above, below = [lv.high - lv.mean for lv in levels], [lv.mean - lv.low for lv in levels]
    bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    return {"error_y": bars | {"color": theme.series[1], "thickness": 2, "width": 8}}
