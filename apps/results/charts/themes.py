"""One palette for light and one for dark pages, and what every figure's layout shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.results.timeline import Axis

Figure = dict[str, Any]


@dataclass(frozen=True)
class Theme:
    """Series colours in order, then text, grid, and paper."""

    series: tuple[str, ...]
    text: str
    grid: str
    paper: str


LIGHT = Theme(("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#1F2328", "#7A4B00"), "#1F2328", "#D9DDE3", "#FFFFFF")
DARK = Theme(("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#E6E8EB"), "#E6E8EB", "#33383E", "#121417")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x")

# Of a chart, unless its page says it.
WIDTH_PX = 1200

# A logarithmic axis with whole labels: Plotly by itself writes 0.05 as a bare 5.
_STEPS = [digit * 10.0**power for power in range(-6, 10) for digit in (1, 2, 5)]
_LABELS = [f"{step:,.0f}" if step >= 1 else f"{step:.6f}".rstrip("0") for step in _STEPS]
LOGARITHMIC: Figure = {"type": "log", "tickvals": _STEPS, "ticktext": _LABELS}


def theme(name: str) -> Theme:
    return DARK if name == "dark" else LIGHT


def layout(look: Theme, **axes: Figure) -> Figure:
    grid = {"gridcolor": look.grid, "linecolor": look.grid, "automargin": True}
    return {
        "paper_bgcolor": look.paper,
        "plot_bgcolor": look.paper,
        "font": {"color": look.text, "family": "system-ui, sans-serif", "size": 13},
        "margin": {"l": 70, "r": 16, "t": 40, "b": 50},
        "hovermode": "closest",
        "colorway": list(look.series),
        **{name: grid | axis for name, axis in axes.items()},
    }


def foot(axis: Figure, *notes: str) -> None:
    """Small lines under an axis and its title, where they hide no point."""
    small = [f'<span style="font-size:11px">{note}</span>' for note in notes if note]
    lines = [axis.get("title", {}).get("text", ""), *small]
    axis["title"] = {"text": "<br>".join(line for line in lines if line)}


def origin_note(data: Iterable[Figure]) -> str:
    """The note for a vertical axis that leaves out 0; "" if Plotly's own range, 6 % beyond the data, shows it."""
    keys = ("y", "lowerfence", "upperfence")
    values = [value for trace in data for key in keys for value in trace.get(key, ()) if isinstance(value, int | float)]
    if not values:
        return ""
    room = 0.06 * (max(values) - min(values))
    return "" if min(values) - room <= 0 <= max(values) + room else "The axis does not start at 0"


def shown(axis: Axis) -> Figure:
    """Of a time axis the part that is shown; all of it is Plotly's own choice."""
    return {} if axis.begin is None or axis.end is None else {"range": [axis.begin, axis.end], "autorange": False}
