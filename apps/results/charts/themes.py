"""The palettes of light and dark pages, and the common layout of all figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from apps.results.runs.time_axis import Axis

Figure = dict[str, Any]


@dataclass(frozen=True)
class Theme:
    """Colours of series in order, then text, grid, paper, and the colour scale of heat maps from low to high."""

    series: tuple[str, ...]
    text: str
    grid: str
    paper: str
    heat: tuple[tuple[float, str], ...]


# Cividis, which colour-blind readers can distinguish; on a dark page without its darkest part, which would merge with
# it.
CIVIDIS = ((0.0, "#00224E"), (0.25, "#35456C"), (0.5, "#666970"), (0.75, "#A59C74"), (1.0, "#FEE838"))
CIVIDIS_ON_DARK = ((0.0, "#5A6E9E"), (0.25, "#7A7F8C"), (0.5, "#A09A7C"), (0.75, "#CDBB62"), (1.0, "#FEE838"))
LIGHT = Theme(
    ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#1F2328", "#7A4B00"), "#1F2328", "#D9DDE3", "#FFFFFF", CIVIDIS
)
DARK = Theme(
    ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#E6E8EB"), "#E6E8EB", "#33383E", "#121417", CIVIDIS_ON_DARK
)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x")

# Values with a smaller relative difference are equal: a mean of logarithms is not exactly the value of one run.
TOLERANCE = 1e-9

# Height of a chart, unless its page defines it.
WIDTH_PX = 1200

# A logarithmic axis with complete labels. Plotly would write 0.05 as 5.
_STEPS = [digit * 10.0**power for power in range(-6, 10) for digit in (1, 2, 5)]
_LABELS = [f"{step:,.0f}" if step >= 1 else f"{step:.6f}".rstrip("0") for step in _STEPS]
LOGARITHMIC: Figure = {"type": "log", "tickvals": _STEPS, "ticktext": _LABELS}


def theme(name: str) -> Theme:
    return DARK if name == "dark" else LIGHT


def layout(theme: Theme, **axes: Figure) -> Figure:
    grid = {"gridcolor": theme.grid, "linecolor": theme.grid, "automargin": True}
    return {
        "paper_bgcolor": theme.paper,
        "plot_bgcolor": theme.paper,
        "font": {"color": theme.text, "family": "system-ui, sans-serif", "size": 13},
        "margin": {"l": 70, "r": 16, "t": 40, "b": 50},
        "hovermode": "closest",
        "colorway": list(theme.series),
        **{name: grid | axis for name, axis in axes.items()},
    }


def foot(axis: Figure, *notes: str) -> None:
    """Add small lines below an axis and its title, where they cover no point."""
    small = [f'<span style="font-size:11px">{note}</span>' for note in notes if note]
    lines = [axis.get("title", {}).get("text", ""), *small]
    axis["title"] = {"text": "<br>".join(line for line in lines if line)}


def value_range(data: Iterable[Figure]) -> Figure:
    """Return the range of a vertical axis: from 0 if all values are equal, up to rounding. Plotly would zoom into
    the rounding and cut off the points."""
    low, high = _extremes(data) or (0.0, 1.0)
    if not _is_flat(low, high):
        return {}
    return {"range": [min(0.0, 1.15 * low), max(0.0, 1.15 * high)] if abs(high) > TOLERANCE else [-1.0, 1.0]}


def origin_note(data: Iterable[Figure]) -> str:
    """Return the note for a vertical axis without 0; "" if Plotly's range, 6 % beyond the data, or ours includes it."""
    extremes = _extremes(data)
    if extremes is None or _is_flat(*extremes):
        return ""
    low, high = extremes
    room = 0.06 * (high - low)
    return "" if low - room <= 0 <= high + room else "The axis does not start at 0"


def _extremes(data: Iterable[Figure]) -> tuple[float, float] | None:
    """Return the extremes of the values and of their error bars."""
    keys = ("y", "lowerfence", "upperfence")
    drawn = [value for trace in data for key in keys for value in [*trace.get(key, ())]]
    ends = [end for trace in data for end in _ends(trace)]
    values = [value for value in [*drawn, *ends] if isinstance(value, int | float)]
    return (min(values), max(values)) if values else None


def _ends(trace: Figure) -> Iterator[float]:
    bars = trace.get("error_y") or {}
    if "array" not in bars or "arrayminus" not in bars:
        return
    for value, below, above in zip(trace["y"], bars["arrayminus"], bars["array"], strict=False):
        if None not in (value, below, above):
            yield from (value - below, value + above)


def _is_flat(low: float, high: float) -> bool:
    return high - low <= TOLERANCE * max(abs(low), abs(high), 1.0)


def visible_range(axis: Axis) -> Figure:
    """Return the part of a time axis to show; {} lets Plotly show all of it."""
    return {} if axis.begin is None or axis.end is None else {"range": [axis.begin, axis.end], "autorange": False}
