"""Charts of many runs: a box for each level, and points for runs beyond its whiskers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from apps.results.answers.table import CampaignTable, LevelRow
from apps.results.charts.themes import Figure, Theme

# More points overlap, and a browser takes seconds to draw them.
MOST_POINTS = 2000
# With fewer runs, points show more than a box.
LEAST_IN_BOX = 8
WHISKER = 1.5  # interquartile ranges, as defined by Tukey

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Box:
    """Quartiles, and the outermost values within the whiskers; fields have Plotly's names."""

    q1: float
    median: float
    q3: float
    lowerfence: float
    upperfence: float

    def holds(self, value: float) -> bool:
        return self.lowerfence <= value <= self.upperfence


def box_of(values: Sequence[float]) -> Box:
    """Return the box of all values: quartiles as NumPy interpolates them, Tukey's whiskers to the last value within
    WHISKER of the box."""
    array = np.asarray(values)
    q1, median, q3 = np.quantile(array, (0.25, 0.5, 0.75)).tolist()
    reach = WHISKER * (q3 - q1)
    within = array[(array >= q1 - reach) & (array <= q3 + reach)]
    return Box(q1, median, q3, float(within.min()), float(within.max()))


def drawn_of(boxes: Sequence[Box]) -> Figure:
    """Return the precomputed statistics of a trace of boxes; for thousands of runs the browser would take too long."""
    return {field.name: [getattr(box, field.name) for box in boxes] for field in fields(Box)}


def crowded(table: CampaignTable) -> bool:
    return sum(len(level.points) for level in table.levels) > MOST_POINTS


def thinned(rows: Sequence[Row], table: CampaignTable, theme: Theme) -> tuple[list[Figure], list[Row], str]:
    """Return (boxes, the rows that remain points, the note below the chart)."""
    boxes = {place: box_of(_values(lv)) for place, lv in enumerate(table.levels) if len(lv.points) >= LEAST_IN_BOX}
    alone = {
        point.run
        for place, lv in enumerate(table.levels)
        for point in lv.points
        if place not in boxes or not boxes[place].holds(point.value)
    }
    outside = [row for row in rows if row["point"].run in alone]
    step = -(-len(outside) // MOST_POINTS) or 1
    shown = outside[::step]
    note = f"boxes: all {len(rows)} runs; points: those beyond 1.5 interquartile ranges"
    return [_trace(boxes, theme)], shown, note + (f", 1 of every {step} of {len(outside)}" if step > 1 else "")


def _values(level: LevelRow) -> list[float]:
    return [point.value for point in level.points]


def _trace(boxes: Mapping[int, Box], theme: Theme) -> Figure:
    return {
        "type": "box",
        "name": "quartiles of the runs",
        "x": [place - 0.12 for place in boxes],
        **drawn_of(list(boxes.values())),
        "width": 0.3,
        "marker": {"color": theme.series[0]},
        "line": {"width": 1.5},
    }
