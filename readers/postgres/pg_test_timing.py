"""Parse the report of pg_test_timing 9.3 to 19, in any language.

Source: src/bin/pg_test_timing/pg_test_timing.c and its documentation, its translations, and samples of real runs. Up
to 18 there is one histogram in microseconds. 19 prints nanoseconds, running percentages, exact durations, and a
section for each clock source of the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from common.errors import FormatError
from readers.text import INT, unreadable, whole_lines

WHERE = "pg_test_timing"


@dataclass(frozen=True)
class Bucket:
    """Durations from half of `below_ns` up to but excluding `below_ns`; the first bucket starts at 0."""

    below_ns: int
    percent: float
    count: int


@dataclass(frozen=True)
class Duration:
    """One exact duration between two readings of the clock (from 19)."""

    ns: int
    percent: float
    count: int


@dataclass(frozen=True)
class Clock:
    """One clock source; its name is printed from 19 on. `durations` end at a percentage, apart from the longest one."""

    source: str | None
    per_loop_ns: float
    histogram: tuple[Bucket, ...]
    durations: tuple[Duration, ...] = ()


@dataclass(frozen=True)
class Report:
    """`clocks`: the system's clock first. `tsc`: the lines about the time stamp counter (from 19). `missing`:
    histograms that are incomplete, and an incomplete last line."""

    seconds: int | None
    clocks: tuple[Clock, ...]
    tsc: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def per_loop_ns(self) -> float:
        """The nanoseconds from one reading of the system's clock to the next."""
        return self.clocks[0].per_loop_ns

    @property
    def histogram(self) -> tuple[Bucket, ...]:
        return self.clocks[0].histogram


# The figure has exactly two decimals; the word before it and its unit are translated.
_LOOP = re.compile(r"(?P<whole>[0-9]{1,15})[.,](?P<cents>[0-9]{2})")
_SOURCE = re.compile(r"(?:System c|Fast c|C)lock source: (?P<name>.+)")
# Microseconds have three columns, nanoseconds four. Shares have this number of decimals.
_DECIMALS = {3: 5, 4: 4}
_PERCENT = re.compile(r"([0-9]{1,3})[.,]([0-9]{4,5})")


@dataclass
class _Section:
    source: str | None
    per_loop_ns: float
    histogram: list[Bucket] = field(default_factory=list)
    durations: list[Duration] = field(default_factory=list)
    columns: int = 3
    ended: bool = False  # by which line the histogram ended; it is not one of its rows

    def row(self, fields: list[str]) -> bool:
        """Read a row of the histogram or of the durations after it. Returns False for any other line."""
        percent = _PERCENT.fullmatch(fields[1]) if len(fields) in _DECIMALS else None
        if percent is None or not re.fullmatch(INT, fields[0]) or not re.fullmatch(INT, fields[-1]):
            self.ended = bool(self.histogram)
            return False
        figures = (float(f"{percent[1]}.{percent[2]}"), int(fields[-1]))
        self.columns = len(fields)
        if self.columns == 3:
            self.histogram.append(Bucket(int(fields[0]) * 1000, *figures))
        elif self.ended:
            self.durations.append(Duration(int(fields[0]), *figures))
        else:
            # The column is "<= 15"; durations are whole nanoseconds.
            self.histogram.append(Bucket(int(fields[0]) + 1, *figures))
        return True

    def whole(self) -> bool:
        """Return whether each percentage is its count's share of all counts. A missing row or incomplete figure
        contradicts it."""
        total = sum(bucket.count for bucket in self.histogram)
        rounding = 0.51 * 10 ** -_DECIMALS[self.columns]
        return total > 0 and all(abs(one.percent - 100 * one.count / total) < rounding for one in self.histogram)

    def clock(self) -> Clock:
        return Clock(self.source, self.per_loop_ns, tuple(self.histogram), tuple(self.durations))


@dataclass
class _Reader:
    sections: list[_Section] = field(default_factory=list)
    tsc: list[str] = field(default_factory=list)
    source: str | None = None  # clock source named before the line that starts its section
    seconds: int | None = None  # from the first line

    def line(self, line: str, place: str) -> None:
        fields = line.split()
        loop = _LOOP.fullmatch(fields[-2]) if len(fields) > 2 and not line.startswith(" ") else None
        named = _SOURCE.fullmatch(line)
        if loop:
            if any(section.source == self.source for section in self.sections):
                raise FormatError(place, "a clock appears twice", hint="give one report at a time")
            self.sections.append(_Section(self.source, float(f"{loop['whole']}.{loop['cents']}")))
            self.source = None
        elif named:
            self.source = named["name"]
        elif self.sections and self.sections[-1].row(fields):
            return
        elif fields and fields[0].isdecimal():
            raise unreadable(place, line)
        elif line.startswith("TSC "):
            self.tsc.append(line)
        elif not self.sections and self.seconds is None:
            duration = re.search(r"[0-9]{1,9}", line)
            self.seconds = int(duration[0]) if duration else None


def parse_pg_test_timing(raw: bytes) -> Report:
    """Parse a report. `missing` names what an incomplete output lacks. Raises FormatError without a loop time."""
    reader, (lines, cut) = _Reader(), whole_lines(raw, WHERE)
    for place, line in lines:
        reader.line(line, place)
    missing = ["the last line"] * cut
    if not reader.sections:
        raise FormatError(
            WHERE, "the output contains no loop time", hint="it ends early if the clock went back; see its stderr"
        )
    missing += [f"histogram of {one.source or 'the clock'}" for one in reader.sections if not one.whole()]
    return Report(
        seconds=reader.seconds,
        clocks=tuple(section.clock() for section in reader.sections),
        tsc=tuple(reader.tsc),
        missing=tuple(missing),
    )
