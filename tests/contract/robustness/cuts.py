"""An output that ends too early, and what may be read of it: nothing that the whole output does not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common.errors import FormatError
from readers.formats import FORMATS
from readers.guess import as_json
from readers.text import finished

# Kinds whose every whole line is a row: half a file is a whole log of half the time.
LOGS = {
    "pgbench-log",
    "pgbench-aggregate-log",
    "fio-log",
    "numa_maps",
    "stap",
    "perf-trace",
    "pgbench-stderr",
    "postgresql-log",
    "pgbench-init",
    "sysbench-prepare",
    "bpftrace",
    "fio-job",
}


def figures(value: Any, path: str = "") -> dict[str, float]:
    """Each number of a result by its place in it."""
    if isinstance(value, dict):
        return {at: one for name, each in value.items() for at, one in figures(each, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {at: one for place, each in enumerate(value) for at, one in figures(each, f"{path}[{place}]").items()}
    return {path: value} if isinstance(value, int | float) and not isinstance(value, bool) else {}


def admits(value: Any) -> bool:
    """Whether a result says anywhere of itself that the output ended too early."""
    if isinstance(value, dict):
        return bool(value.get("cut") or value.get("missing") or value.get("unfinished")) or any(
            map(admits, value.values())
        )
    return any(map(admits, value)) if isinstance(value, list) else False


def read(kind: str, raw: bytes) -> Any:
    """A result as JSON; None where the output is refused."""
    try:
        return as_json(FORMATS[kind].parse(raw))
    except FormatError:
        return None


def wrong_figures(kind: str, whole: bytes, at: int, expected: dict[str, float]) -> Iterator[str]:
    """The figures of the first `at` bytes that are others than those of the whole, where nothing is admitted."""
    parsed = read(kind, whole[:at])
    if parsed is None or admits(parsed):
        return
    if kind in LOGS:
        rows = read(kind, finished(whole[:at]))
        expected = figures(rows) if rows is not None else {}
    for place, value in figures(parsed).items():
        if expected.get(place) != value:
            yield f"{place} is {value} and not {expected.get(place)}"
