"""fio's logs of every second, of many jobs, as one series on one time axis. Pure but for reading the files.

Source: "Log File Formats" of fio's HOWTO: time in ms, value, direction (0 read, 1 write, 2 trim), block size, offset. A
line covers the time since the one before it, and jobs do not tick together: each second gets its share of a line.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, Iterable, Iterator

EVERY_MS = 1000
DIRECTIONS = ("read", "write", "trim")
# The columns of each log and their units. The factor is for fio 3, whose latencies are in nanoseconds.
LOGS = {"bw": 1.0, "iops": 1.0, "lat": 1e-6}
SUMMED = ("bw", "iops")
Entry = tuple[float, float, int]


class Seconds:
    """The lines of one log and direction, folded to seconds: their sums, and which share of each second they cover."""

    def __init__(self) -> None:
        self.sums: dict[int, float] = defaultdict(float)
        self.weights: dict[int, float] = defaultdict(float)

    def add(self, until: float, value: float) -> None:
        second = int(until)
        part = until - second
        for at, share in ((second - 1, 1.0 - part), (second, part)):
            self.sums[at] += value * share
            self.weights[at] += share

    def values(self, summed: bool) -> dict[int, float]:
        """The sum over all jobs, or their mean. Without seconds at the edges, which less than half of them cover."""
        jobs = max(self.weights.values(), default=0.0)
        scale = jobs if summed else 1.0
        whole = (at for at, weight in self.weights.items() if weight >= jobs / 2)
        return {at: self.sums[at] / self.weights[at] * scale for at in whole}


def entries(lines: Iterable[str]) -> Iterator[Entry]:
    """(s since 1970, value, direction); a line that was cut short is left out."""
    for line in lines:
        fields = line.split(",")
        if len(fields) >= 4 and fields[2].strip() in ("0", "1", "2"):
            yield int(fields[0]) / 1000, float(fields[1]), int(fields[2])


def fold(directory: Path, names: list[str], *, microseconds: bool = False) -> dict[str, Any]:
    """The logs NUMBER_bw.log, NUMBER_iops.log and NUMBER_lat.log of each section, numbered from 0.

    {"source", "columns": {"t": [wall s], "read_bw": [KiB/s], "read_iops": [...], "read_lat": [ms] ...}, "spans":
    [{"name", "began", "ended"}]}; None where a second has no such figure.
    """
    columns: dict[str, dict[int, float]] = defaultdict(dict)
    spans = []
    for number, name in enumerate(names):
        times: list[float] = []
        for log, factor in LOGS.items():
            path = directory / f"{number}_{log}.log"
            factor = factor * (1000.0 if microseconds and log == "lat" else 1.0)
            for column, values in _columns(path, log, times).items():
                merged = columns[column]
                for at, value in values.items():
                    merged[at] = _merged(merged.get(at), value * factor, log)
        if times:
            spans.append({"name": name, "began": min(times) - EVERY_MS / 1000, "ended": max(times)})
    return {"source": "fio", "columns": _table(columns), "spans": spans}


def _columns(path: Path, log: str, times: list[float]) -> dict[str, dict[int, float]]:
    folded: dict[int, Seconds] = defaultdict(Seconds)
    if path.is_file():
        with path.open() as lines:
            for until, value, direction in entries(lines):
                folded[direction].add(until, value)
                times[:] = [min([*times[:1], until]), max([*times[1:], until])]
    return {f"{DIRECTIONS[each]}_{log}": seconds.values(log in SUMMED) for each, seconds in sorted(folded.items())}


def _merged(before: Any, value: float, log: str) -> float:
    """Sections that run at the same time share their seconds."""
    if before is None:
        return value
    return float(before) + value if log in SUMMED else (float(before) + value) / 2


def _table(columns: dict[str, dict[int, float]]) -> dict[str, list[Any]]:
    seconds = sorted({at for values in columns.values() for at in values})
    table = {name: [_rounded(values.get(at)) for at in seconds] for name, values in sorted(columns.items())}
    # A second has the time of its end, as intervals of collectors have.
    return {"t": [float(at + 1) for at in seconds], **table}


def _rounded(value: Any) -> Any:
    return None if value is None else float(f"{value:.6g}")
