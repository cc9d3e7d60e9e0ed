"""Runs on one time axis, each in seconds since its own measured step began: a colour for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apps.results.charts.runs import MOST_LINES, run_chart
from apps.results.charts.themes import DASHES, SYMBOLS, WIDTH_PX, Figure, Theme
from apps.results.runs.side_by_side import Side
from apps.results.runs.timeline import Axis
from apps.results.store.samples import Column
from apps.results.store.series import Panel


def overlay_chart(sides: Sequence[Side], axis: Axis, look: Theme, width: int = WIDTH_PX) -> Figure:
    """A panel for each kind of figure with the lines of all runs; what is stacked has a panel for each run."""
    panels: dict[str, Panel] = {}
    columns = list[Column]()
    for side in sides:
        for column in _kept(side, len(sides)):
            panel = _of_side(column.panel, side) if column.panel.stacked else column.panel
            panels[panel.key] = panel
            name = column.name if panel.stacked else f"{side.letter} {column.name}"
            columns.append(replace(column, panel=panel, name=name))
    order = sorted(panels.values(), key=lambda panel: (panel.stacked, list(panels).index(panel.key)))
    figure = run_chart(order, columns, [], axis, look, width)
    for trace in figure["data"]:
        letter, _, name = trace["name"].partition(" ")
        places = [place for place, side in enumerate(sides) if side.letter == letter]
        if name and places and not trace.get("stackgroup"):
            _tell_apart(trace, places[0], _rank(name, columns), look)
    return figure


def _kept(side: Side, sides: int) -> list[Column]:
    """Of each panel as many columns as leave room for those of the other runs."""
    kept, counts = list[Column](), dict[str, int]()
    for column in side.columns:
        counts[column.panel.key] = counts.get(column.panel.key, 0) + 1
        if column.panel.stacked or counts[column.panel.key] <= max(1, MOST_LINES // sides):
            kept.append(column)
    return kept


def _of_side(panel: Panel, side: Side) -> Panel:
    return replace(panel, key=f"{panel.key} {side.letter}", group=f"{panel.group} of {side.letter}")


def _rank(name: str, columns: Sequence[Column]) -> int:
    """Of a column among those of its panel, the same for all runs."""
    panel = next(column.panel.key for column in columns if column.name.partition(" ")[2] == name)
    names = [column.name.partition(" ")[2] for column in columns if column.panel.key == panel]
    return list(dict.fromkeys(names)).index(name)


def _tell_apart(trace: Figure, side: int, rank: int, look: Theme) -> None:
    """The colour and symbol of a run, the dash of a column."""
    trace["line"] = trace["line"] | {"color": look.series[side], "dash": DASHES[(side + 2 * rank) % len(DASHES)]}
    trace["marker"] = trace["marker"] | {"symbol": SYMBOLS[side], "size": 4}
