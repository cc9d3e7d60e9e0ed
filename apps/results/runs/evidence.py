"""The evidence of a proof as tables for users, whatever a setting records. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_ROWS = 200
MOST_COLUMNS = 17


@dataclass(frozen=True)
class EvidenceTable:
    """A table with a title. `unit`: kB for figures in kB. `more`: rows that were left out."""

    name: str
    head: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    unit: str = ""
    more: int = 0
    text: str = ""


def parts(evidence: Mapping[str, Any]) -> list[EvidenceTable]:
    """Return everything but the source: scalars in one table, then a table for each list or mapping."""
    plain = [[_label(name), value] for name, value in evidence.items() if name != "source" and _scalar(value)]
    scalars = [EvidenceTable("", ["what", "value"], plain)] if plain else []
    return scalars + [part for name, value in evidence.items() if not _scalar(value) for part in _tables(name, value)]


def _tables(name: str, value: Any) -> Iterator[EvidenceTable]:
    unit = "kB" if "kb" in name.lower().split("_") else ""
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        head = list(dict.fromkeys(key for row in value for key in row))
        rows = [[row.get(key) for key in head] for row in value[:MOST_ROWS]]
        yield EvidenceTable(_label(name), [_label(key) for key in head], rows, unit, max(0, len(value) - MOST_ROWS))
    elif isinstance(value, Mapping) and value and all(map(_scalar, value.values())):
        yield _flat(name, value, unit)
    elif isinstance(value, Mapping) and value and all(_leaf(inner) for inner in value.values()):
        yield _matrix(name, value, unit)
    elif value:
        yield EvidenceTable(_label(name), text=json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _flat(name: str, value: Mapping[str, Any], unit: str) -> EvidenceTable:
    """Return one row if it fits, else one row per key."""
    if len(value) <= MOST_COLUMNS and all(isinstance(each, int | float) for each in value.values()):
        return EvidenceTable(_label(name), [_column(name, key) for key in value], [list(value.values())], unit)
    return EvidenceTable(_label(name), ["what", "value"], [[key, each] for key, each in value.items()], unit)


def _matrix(name: str, value: Mapping[str, Mapping[str, Any]], unit: str) -> EvidenceTable:
    """Return {"shared": {"0": kB, "1": kB}} with a row for each outer key and a column for each inner one."""
    columns = sorted({key for inner in value.values() for key in inner}, key=_order)
    rows = [[outer, *(inner.get(key) for key in columns)] for outer, inner in value.items()]
    return EvidenceTable(_label(name), ["", *(_column(name, key) for key in columns)], rows, unit)


def _order(key: str) -> tuple[bool, int, str]:
    return (not key.isdecimal(), int(key) if key.isdecimal() else 0, key)


def _column(name: str, key: str) -> str:
    """Return the heading of a column. A number alone is unclear: node 0, cpu 3."""
    what = next((word for word in ("node", "cpu") if word in name or (word == "cpu" and "busy" in name)), "")
    return f"{what} {key}" if what and key.isdecimal() else key


def _label(name: str) -> str:
    return name.replace("_", " ")


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _leaf(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_scalar, value.values()))
