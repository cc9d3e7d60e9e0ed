"""Guess the use of each column of a table: a factor, a figure, a time. Users can correct it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agents.workloads import WORKLOADS
from common.errors import FormatError
from readers.table import Table, is_time, named, number, plain

Use = Mapping[str, Any]
USES = ("factor", "figure", "time", "started", "block", "outcome", "error", "ignore")
# Our own export of runs has these columns, the factors, these columns, then the figures as step.name (unit).
_FIRST = ("run", "position", "block")
_LAST = ("state", "outcome", "started_at", "ended_at", "digest", "error")
_TIMES = ("finish", "finished", "ended", "ended_at", "end", "time", "timestamp", "date")
_STARTS = ("start", "started", "started_at", "begin")
_BLOCKS = ("block", "repetition", "iteration", "rep")
_LOWER_UNITS = ("ns", "us", "µs", "ms", "s", "sec", "seconds", "msec", "usec")
_HIGHER_UNITS = ("tps", "qps", "iops", "kib/s", "mib/s", "mb/s", "gb/s", "tpmc", "ops/sec", "ops/s")
_HIGHER_NAMES = ("tps", "qps", "iops", "throughput", "bandwidth", "bw", "tpmc")
_LOWER_NAMES = ("latency", "lat", "duration", "elapsed", "runtime")
MOST_LEVELS = 100


def guess_columns(table: Table) -> dict[str, dict[str, Any]]:
    """Return header -> {"as", for factors and figures "name", for figures "unit" and "better"}."""
    known = _ours(table)
    if known is not None:
        return known
    uses: dict[str, dict[str, Any]] = {header: _guess(header, table) for header in table.head}
    names = [use["name"] for use in uses.values() if "name" in use]
    for header, use in uses.items():
        if "name" in use and names.count(use["name"]) > 1:
            use["name"] = header[:60]
    return uses


def _ours(table: Table) -> dict[str, dict[str, Any]] | None:
    """The columns of our own export of runs; None for any other table."""
    if table.head[: len(_FIRST)] != _FIRST or not set(_LAST) <= set(table.head):
        return None
    begin = table.head.index(_LAST[0])
    if table.head[begin : begin + len(_LAST)] != _LAST:
        return None
    uses: dict[str, dict[str, Any]] = {header: {"as": "ignore"} for header in table.head}
    uses |= {"block": {"as": "block"}, "outcome": {"as": "outcome"}, "error": {"as": "error"}}
    uses |= {"started_at": {"as": "started"}, "ended_at": {"as": "time"}}
    uses |= {header: {"as": "factor", "name": plain(header)} for header in table.head[len(_FIRST) : begin]}
    for header in table.head[begin + len(_LAST) :]:
        (step, _, name), unit = named(header)[0].partition("."), named(header)[1]
        uses[header] = {"as": "figure", "step": step, "name": name, "unit": unit, "better": better(name, unit)}
    return uses


def _guess(header: str, table: Table) -> dict[str, Any]:
    name, unit = named(header)
    word, cells = name.lower(), table.column(header)
    numbers = sum(number(cell, table.delimiter == ";") is not None for cell in cells)
    if not cells:
        return {"as": "ignore"}
    if word in _TIMES + _STARTS and all(is_time(cell) for cell in cells[:20]):
        return {"as": "started" if word in _STARTS else "time"}
    if word in _BLOCKS:
        return {"as": "block"}
    figure = {"as": "figure", "name": name, "unit": unit, "better": better(name, unit)}
    if figure["better"]:
        return figure
    if numbers * 2 < len(cells):
        return {"as": "factor", "name": name} if len(set(cells)) <= MOST_LEVELS else {"as": "ignore"}
    if any(_restates(header, other, table) for other in table.head if other != header):
        return {"as": "ignore"}
    return figure


def _restates(header: str, other: str, table: Table) -> bool:
    """Return whether a column repeats a factor of the same name as a number: pg_cache(KiB) and pg_cache."""
    return named(header)[0] == other and number(table.column(other)[0] if table.column(other) else "") is None


def better(name: str, unit: str) -> str:
    """Return the better direction of a figure, by a known tool, its unit or its name; else ""."""
    declared = next((metric for kind in WORKLOADS.values() if (metric := kind.metric(name))), None)
    if declared:
        return declared.better
    name_parts = re.split(r"[^a-z0-9]+", name.lower())
    if unit.lower() in _HIGHER_UNITS or any(word in _HIGHER_NAMES for word in name_parts):
        return "higher"
    return "lower" if unit.lower() in _LOWER_UNITS or any(word in _LOWER_NAMES for word in name_parts) else ""


def chosen(table: Table, overrides: Mapping[str, Use]) -> dict[str, dict[str, Any]]:
    """Return the guessed uses of columns with the overrides. PlanError names a column or a use that does not exist."""
    uses = guess_columns(table)
    for header, use in overrides.items():
        if header not in uses:
            raise FormatError(f"columns.{header}", "the table has no such column", hint=", ".join(table.head))
        uses[header] = _valid_use(header, dict(use))
    return uses


def _valid_use(header: str, use: dict[str, Any]) -> dict[str, Any]:
    where = f"columns.{header}"
    if use.get("as") not in USES:
        raise FormatError(where, f"{use.get('as')!r} is not a use of a column", hint=f"one of {', '.join(USES)}")
    if use["as"] in ("factor", "figure"):
        name, unit = named(header)
        use = {"name": name, "unit": unit, **{key: value for key, value in use.items() if value not in ("", None)}}
    if use["as"] == "figure" and use.setdefault("better", "") not in ("", "higher", "lower"):
        raise FormatError(where, f"{use['better']!r} is not a direction", hint="higher, lower, or empty for neither")
    return use
