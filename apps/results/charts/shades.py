"""Findings drawn behind the data: the noise floor of a campaign, warm-up and stalls of a run."""

from __future__ import annotations

from collections.abc import Iterable

from apps.results.answers.table import CampaignTable
from apps.results.charts.themes import Figure, Theme
from apps.results.models import StepStability
from apps.results.runs.time_axis import Axis

LEAST_FLOOR = 0.01  # in percent; smaller is rounding


def noise_band(table: CampaignTable, theme: Theme) -> tuple[list[Figure], str]:
    """Return a grey band around the baseline's mean, within which identical levels differ, and its caption."""
    mean = next((level.mean for level in table.levels if level.label == table.baseline), None)
    floor = table.noise_floor_percent
    if mean is None or floor is None:
        return [], ""
    ratio = 1 + floor / 100
    band = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": mean / ratio, "y1": mean * ratio, "layer": "below"}
    shape = band | {"fillcolor": theme.text, "opacity": 0.1, "line": {"width": 0}}
    size = f"±{floor:.2g} %" if floor >= LEAST_FLOOR else f"below ±{LEAST_FLOOR} %"
    return [shape], f"Grey: noise floor, {size} around the baseline"


def within_run(rows: Iterable[StepStability], axis: Axis, theme: Theme) -> Figure:
    """Return a layout with a shade from the start of each step to its steady state, and one for each stall, with
    labels."""
    shapes, labels, offsets = list[Figure](), list[Figure](), axis.offsets()
    for row in rows:
        if row.step not in offsets:
            continue
        begin = offsets[row.step]
        spans = [("warm-up", 0.0, row.data.get("warm_up_s") or 0.0)]
        spans += [("stall", *stall) for stall in row.data.get("stalls", [])]
        for name, t, until in spans:
            if until > t:
                shapes.append(_shade(begin + t, begin + until, name, theme))
                labels.append(_label(begin + t, name, theme))
    return {"shapes": shapes, "annotations": labels}


def _shade(x0: float, x1: float, name: str, theme: Theme) -> Figure:
    colour, opacity = (theme.text, 0.08) if name == "warm-up" else (theme.series[1], 0.25)
    place = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "x0": x0, "x1": x1, "layer": "below"}
    return place | {"fillcolor": colour, "opacity": opacity, "line": {"width": 0}}


def _label(x: float, name: str, theme: Theme) -> Figure:
    """Return a label at the bottom of the first panel, where lines are rare."""
    place = {"xref": "x", "yref": "y domain", "x": x, "y": 0, "xanchor": "left", "yanchor": "bottom"}
    return place | {"text": name, "showarrow": False, "font": {"size": 11, "color": theme.text}}


def laid(figure: Figure, more: Figure) -> Figure:
    """Return the figure with more shapes and annotations."""
    for name, listed in more.items():
        figure["layout"][name] = [*figure["layout"].get(name, []), *listed]
    return figure
