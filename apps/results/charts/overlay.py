"""Several runs on one time axis, in seconds since the start of their measured steps; one colour per run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apps.results.charts.runs import MOST_LINES, run_chart
from apps.results.charts.themes import DASHES, SYMBOLS, WIDTH_PX, Figure, Theme
from apps.results.runs.side_by_side import RunSamples
from apps.results.runs.time_axis import Axis
from apps.results.store.samples import Column
from apps.results.store.series import Panel


def overlay_chart(sides: Sequence[RunSamples], axis: Axis, theme: Theme, width: int = WIDTH_PX) -> Figure:
    """Draw a panel for each kind of figure with the lines of all runs. Stacked areas have a panel for each run."""
    panels: dict[str, Panel] = {}
    columns = list[Column]()
    for side in sides:
        for column in _selected(side, len(sides)):
            panel = _of_side(column.panel, side) if column.panel.stacked else column.panel
            panels[panel.key] = panel
            name = column.name if panel.stacked else f"{side.letter} {column.name}"
            columns.append(replace(column, panel=panel, name=name))
    order = sorted(panels.values(), key=lambda panel: (panel.stacked, list(panels).index(panel.key)))
    figure = run_chart(order, columns, [], axis, theme, width)
    for trace in figure["data"]:
        letter, _, name = trace["name"].partition(" ")
        positions = [place for place, side in enumerate(sides) if side.letter == letter]
        if name and positions and not trace.get("stackgroup"):
            _mark(trace, positions[0], _rank(name, columns), theme)
    return figure


def _selected(side: RunSamples, sides: int) -> list[Column]:
    """Return as many columns of each panel as leave room for the other runs."""
    selected, counts = list[Column](), dict[str, int]()
    for column in side.columns:
        counts[column.panel.key] = counts.get(column.panel.key, 0) + 1
        if column.panel.stacked or counts[column.panel.key] <= max(1, MOST_LINES // sides):
            selected.append(column)
    return selected


def _of_side(panel: Panel, side: RunSamples) -> Panel:
    return replace(panel, key=f"{panel.key} {side.letter}", group=f"{panel.group} of {side.letter}")


def _rank(name: str, columns: Sequence[Column]) -> int:
    """Return the index of a column in its panel, the same for all runs."""
    panel = next(column.panel.key for column in columns if column.name.partition(" ")[2] == name)
    names = [column.name.partition(" ")[2] for column in columns if column.panel.key == panel]
    return list(dict.fromkeys(names)).index(name)


def _mark(trace: Figure, side: int, rank: int, theme: Theme) -> None:
    """Show the run by colour and symbol, the column by dashes."""
    trace["line"] = trace["line"] | {"color": theme.series[side], "dash": DASHES[(side + 2 * rank) % len(DASHES)]}
    trace["marker"] = trace["marker"] | {"symbol": SYMBOLS[side], "size": 4}
