"""Text of changes: amounts with units, and sentences about a level. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apps.results.answers.changes.figures import WatchedFigure
from common.wording import percent, signed
from stats.comparison.associations import Association

MOST_NAMED = 3
NO_VARIATION = "no variation"
_KIB = ("KiB", "MiB", "GiB", "TiB")


def amount(value: float, unit: str) -> str:
    """Return a value with its unit, three digits: "1.21 GiB", "0.0312 ms", "12.5 %"."""
    if unit == "kB":
        value, unit = _in_kib(value)
    number = (
        f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000 else np.format_float_positional(float(f"{value:.3g}"))
    )
    return f"{number.rstrip('.')} {unit}".strip()


def _in_kib(value: float) -> tuple[float, str]:
    place = 0
    while abs(value) >= 1024 and place < len(_KIB) - 1:
        value, place = value / 1024, place + 1
    return value, _KIB[place]


def change(one: Association, figure: WatchedFigure) -> str:
    """Return a change: "-91.3 %", "+12.1 points", or in units of the figure if it has no ratio."""
    return _size(one.change, one, figure)


def interval(one: Association, figure: WatchedFigure) -> str:
    """Return an interval: "-92.1 to -90.4 %"; "" for a difference without variation."""
    if one.low == one.high:
        return NO_VARIATION
    low, high = (_size(end, one, figure) for end in (one.low, one.high))
    number, _, unit = high.rpartition(" ")
    return f"{low.removesuffix(f' {unit}') if number else low} to {high}"


def _size(value: float, one: Association, figure: WatchedFigure) -> str:
    if one.is_ratio:
        return percent(value)
    if figure.unit == "%":
        return f"{signed(value)} points"
    return f"{'+' if value >= 0 else ''}{amount(value, figure.unit)}"


def brief(one: Association, figure: WatchedFigure) -> str:
    """Return title and change; for memory also the amount: "page tables -1.1 GiB (-91.3 %)"."""
    if figure.unit == "kB" and figure.kind == "gauge" and one.is_ratio:
        return f"{figure.title} {amount(one.after - one.before, 'kB')} ({percent(one.change)})"
    return f"{figure.title} {change(one, figure)}"


def _ci(text: str) -> str:
    return text if text == NO_VARIATION else f"95 % CI {text}"


def sentence(
    level: str, baseline: str, moved: Sequence[tuple[Association, WatchedFigure]], compared: int, metric: str
) -> str:
    """Return what changed at one level, largest standardised effects first. `metric`: its change as in the table."""
    if not moved:
        return f"No figure differs detectably between {level} and {baseline}: {compared} were compared."
    named = [f"{brief(*each)} ({_ci(interval(*each))})" for each in moved[:MOST_NAMED]]
    more = f" and {len(moved) - len(named)} more of {compared} figures" if len(moved) > len(named) else ""
    tail = f"; {metric}" if metric else ""
    return f"With {level}, against {baseline}: {', '.join(named)}{more}{tail}."


def mechanism(title: str, level: str, moved: Sequence[tuple[Association, WatchedFigure]], why: str) -> str:
    """Return the sentence that all observed figures of a known mechanism moved as expected."""
    return f"As expected of {title}, with {level}: {', '.join(brief(*each) for each in moved)}. {why}"
