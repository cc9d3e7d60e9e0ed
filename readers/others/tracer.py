"""Parse the counts and times of strace -c, perf trace -s, perf stat -x, and bpftrace maps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from common.errors import FormatError
from readers.text import INT, NUMBER, each_line, is_unfinished

_STRACE = re.compile(rf"\s*{NUMBER}\s+(?P<s>{NUMBER})\s+{INT}\s+(?P<calls>{INT})(?:\s+{INT})?\s+(?P<name>\w+)\s*")
_TOTAL = re.compile(rb"^100[.,]00 .* total\s*$", re.MULTILINE)
# Times have three decimals and no thousands separators, so a comma is a decimal comma.
_MS = r"[0-9]{1,15}[.,][0-9]{3}"
_TRACE = re.compile(rf" +(?P<name>\w+) +(?P<calls>{INT})(?: +{INT})? +(?P<ms>{_MS})(?: +{_MS}){{3}}.*%\s*")
# A unit has no digits. Digits in its place are the decimals after a comma.
_STAT = re.compile(
    rf"(?P<count>{NUMBER}|<not counted>|<not supported>)(?P<decimals>,[0-9]{{1,18}})?,[^,0-9]*,(?P<name>[^,]+),.*"
)
_MAP = re.compile(rf"@(?P<what>events|ns)(?:\[(?P<name>[^\]]{{0,200}})\])?: (?P<value>{INT})\s*")
_LOST = re.compile(rf"LOST ({INT}) events!")
_HEADS = {"strace": "% time", "perf trace": "Summary of events", "perf stat": "", "bpftrace": ""}


@dataclass(frozen=True)
class Traced:
    """One kind of event: its number, and its total time if the tracer measures it."""

    name: str
    events: int
    total_ns: float | None = None

    @property
    def ns_per_event(self) -> float | None:
        return None if self.total_ns is None or not self.events else self.total_ns / self.events


def parse_strace(raw: bytes) -> tuple[Traced, ...]:
    """Parse strace -c, with or without -w. Without any call strace prints nothing. Raises FormatError for anything
    else."""
    matches = _matches("strace", _STRACE, raw) if raw.strip() else []
    if raw.strip() and not _TOTAL.search(raw):
        raise FormatError("strace", "the line of totals is missing", hint="the output is cut; give the complete output")
    return tuple(
        Traced(row["name"], int(row["calls"]), 1e9 * float(row["s"])) for row in matches if row["name"] != "total"
    )


def parse_perf_trace(raw: bytes) -> tuple[Traced, ...]:
    """Parse perf trace -s: the calls of all threads. No calls at all is not an error."""
    rows = (
        Traced(row["name"], int(row["calls"]), 1e6 * float(row["ms"].replace(",", ".")))
        for row in _matches("perf trace", _TRACE, raw)
    )
    return _summed(rows)


def lost_events(raw: bytes) -> int:
    """Return the number of records that perf trace lost because it was too slow. Entries and exits both count."""
    return sum(int(match[1]) for line in each_line(raw) if (match := _LOST.fullmatch(line.strip())))


def parse_perf_stat(raw: bytes) -> tuple[Traced, ...]:
    """Parse perf stat -x,: each event. Raises FormatError for an event that could not be counted, and if there is
    none."""
    rows = _matches("perf stat", _STAT, raw)
    if not rows:
        raise FormatError("perf stat", "the output contains no event", hint="give the complete output")
    bad = next((row for row in rows if row["count"].startswith("<")), None)
    if bad:
        raise FormatError("perf stat", f"{bad['name']} was {bad['count'].strip('<>')}", hint="choose another event")
    return tuple(Traced(row["name"], round(float(row["count"] + _decimals(row)))) for row in rows)


def _decimals(row: re.Match[str]) -> str:
    return (row["decimals"] or "").replace(",", ".")


def parse_bpftrace(raw: bytes) -> tuple[Traced, ...]:
    """Parse the maps @events and @ns, with or without keys. Raises FormatError without @events."""
    maps: dict[str, dict[str, int]] = {}
    for row in _matches("bpftrace", _MAP, raw):
        maps.setdefault(row["name"] or "events", {})[row["what"]] = int(row["value"])
    counted = {name: row for name, row in maps.items() if "events" in row}
    if not counted:
        raise FormatError("bpftrace", "the output contains no @events", hint="count events in a map with that name")
    return tuple(
        Traced(name, row["events"], float(row["ns"]) if "ns" in row else None) for name, row in counted.items()
    )


def _matches(tool: str, pattern: re.Pattern[str], raw: bytes) -> list[re.Match[str]]:
    if is_unfinished(raw):
        raise FormatError(tool, "the last line has no end", hint="the output is cut; give the complete output")
    head, headed, matches = _HEADS[tool], False, []
    for line in each_line(raw, tool):
        headed = headed or head in line
        match = pattern.fullmatch(line)
        matches += [match] if match else []
    if not headed:
        raise FormatError(tool, f"the heading {head!r} is missing", hint="give the complete output")
    return matches


def _summed(rows: Iterable[Traced]) -> tuple[Traced, ...]:
    totals: dict[str, Traced] = {}
    for row in rows:
        known = totals.get(row.name, Traced(row.name, 0, 0.0))
        total = (known.total_ns or 0.0) + (row.total_ns or 0.0)
        totals[row.name] = Traced(row.name, known.events + row.events, total)
    return tuple(totals.values())
