"""Expand several levels of a numeric factor: "1, 4, 16", "128MB..8GB x2" or "10..50 +10". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from apps.tuning.gucs import MEMORY, TIME

MOST = 50
_NUMBER, _UNIT = r"-?\d+(?:\.\d+)?", r"[A-Za-z]*"
LIST = re.compile(rf"{_NUMBER}\s*{_UNIT}(\s*,\s*{_NUMBER}\s*{_UNIT})+")
RANGE = re.compile(
    rf"(?P<first>{_NUMBER})\s*(?P<unit>{_UNIT})\s*\.\.\s*(?P<last>{_NUMBER})\s*(?P<last_unit>{_UNIT})"
    rf"\s*(?P<how>[x+])\s*(?P<step>{_NUMBER})\s*(?P<step_unit>{_UNIT})"
)


def expanded(text: str) -> list[str]:
    """Return the values in order; only `text` if it is one value or stands for more than MOST."""
    if LIST.fullmatch(text):
        values = [part.strip() for part in text.split(",")]
    elif match := RANGE.fullmatch(text):
        values = _values(match) or [text]
    else:
        values = [text]
    return list(dict.fromkeys(values)) if len(values) <= MOST else [text]


def _values(match: re.Match[str]) -> list[str]:
    """Return the values; empty if the units differ in kind or the steps do not lead to the last value."""
    last_unit = match["last_unit"] or match["unit"]
    units = _units(match["unit"] or last_unit, last_unit, match["step_unit"])
    if units is None or (match["how"] == "x" and match["step_unit"]):
        return []
    first = Decimal(match["first"]) * units.get(match["unit"] or last_unit, 1)
    last = Decimal(match["last"]) * units.get(last_unit, 1)
    step = Decimal(match["step"])
    if match["how"] == "+":
        step *= units.get(match["step_unit"] or match["unit"] or last_unit, 1)
    return [_written(value, units, last_unit) for value in _steps(first, last, match["how"], step)]


def _units(*units: str) -> Mapping[str, int] | None:
    """Return the table that contains all units; {} without units or with one that is in no table."""
    named = {unit for unit in units if unit}
    for table in (MEMORY, TIME):
        if named and named <= table.keys():
            return table
    return {} if len(named) < 2 else None


def _steps(first: Decimal, last: Decimal, how: str, step: Decimal) -> Iterator[Decimal]:
    """Yield the values, at most MOST + 1, so that the caller notices too many."""
    if step <= (1 if how == "x" else 0) or (how == "x" and first <= 0):
        return
    value = first
    for _ in range(MOST + 1):
        if value > last:
            return
        yield value
        value = value * step if how == "x" else value + step


def _written(value: Decimal, units: Mapping[str, int], unit: str) -> str:
    """Return the number in the largest unit without a fraction: "1GB" rather than "1024MB"."""
    whole = [name for name in units if value % units[name] == 0]
    if whole:
        largest = max(whole, key=lambda name: units[name])
        return f"{value / units[largest]:f}{largest}" if value else f"0{unit}"
    number = value / units.get(unit, 1)
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + unit
