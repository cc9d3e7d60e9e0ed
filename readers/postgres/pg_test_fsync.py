"""Parse the report of pg_test_fsync 9.3 to 18, in any language.

Source: src/bin/pg_test_fsync/pg_test_fsync.c, its translations, and samples of real runs. Tables are in the order of
TABLES. Method names are not translated; headings, units and decimal points are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from common.errors import FormatError
from readers.text import INT, unreadable, whole_lines

WHERE = "pg_test_fsync"

_SYNC = ("open_datasync", "fdatasync", "fsync", "fsync_writethrough", "open_sync")
TABLES: Mapping[str, tuple[str, ...]] = {
    "one_write": _SYNC,
    "two_writes": _SYNC,
    "open_sync_sizes": ("1 * 16kB", "2 * 8kB", "4 * 4kB", "8 * 2kB", "16 * 1kB"),
    "non_write_fd": ("write, fsync, close", "write, close, fsync"),
    "non_synced_write": ("write",),
}


@dataclass(frozen=True)
class Rate:
    """One line. `table` and `method` together are unique, because method names repeat. None: not available on that
    platform."""

    table: str
    method: str
    ops_per_s: float | None
    us_per_op: int | None


@dataclass(frozen=True)
class Report:
    """A report. `missing`: the lines ("open_sync_sizes: 4 * 4kB") that an incomplete output lacks.

    `o_direct`: whether the platform has O_DIRECT, according to the output. `footnote`: a method was not available
    because the file system does not support direct I/O."""

    seconds_per_test: int | None
    o_direct: bool
    rates: tuple[Rate, ...]
    footnote: bool
    missing: tuple[str, ...]

    def table(self, name: str) -> dict[str, Rate]:
        """Return the lines of one of TABLES, by method."""
        return {rate.method: rate for rate in self.rates if rate.table == name}


@dataclass
class _Reader:
    head: list[str] = field(default_factory=list)
    rates: list[Rate] = field(default_factory=list)
    footnote: bool = False
    number: int = 0  # the table to which the next line belongs
    begun: bool = False

    def line(self, line: str, place: str) -> None:
        if not line.startswith(" " * 8):
            self._heading(line)
            return
        name, methods = self._table(place, line)
        rate, starred = _rate(name, line.split(), place, line)
        if rate.method not in methods or rate.method in (one.method for one in self.rates if one.table == name):
            raise FormatError(
                place, f"{rate.method} does not belong in table {name}", hint="tables are missing or edited"
            )
        self.rates.append(rate)
        self.footnote |= starred
        self.begun = True

    def _heading(self, line: str) -> None:
        if self.begun and not line.startswith((" ", "* ")):
            self.number, self.begun = self.number + 1, False
        if not self.rates:
            self.head.append(line)

    def _table(self, place: str, line: str) -> tuple[str, tuple[str, ...]]:
        if self.number >= len(TABLES):
            raise FormatError(place, "the output has more tables than one report", hint="give one report at a time")
        return list(TABLES.items())[self.number]


# Translations move the words around these two numbers, and write kB in their own script.
_SIZE = re.compile(rf"({INT}) \* [^0-9]*({INT})")
# Figures have three decimals and no thousands separators, so a comma is a decimal comma.
_OPS = re.compile(r"([0-9]{1,15})[.,]([0-9]{3})")


def _rate(table: str, fields: list[str], place: str, line: str) -> tuple[Rate, bool]:
    """Parse `method ops unit us unit` or `method n/a`. Returns the rate, and whether an asterisk refers to the
    footnote."""
    if table in ("one_write", "two_writes") and len(fields) > 1 and not any(c.isdigit() for c in "".join(fields[1:])):
        return Rate(table, fields[0], None, None), fields[-1].endswith("*")
    if table == "open_sync_sizes" and fields[-1].endswith("*") and not any(c.isdigit() for c in fields[-1]):
        return Rate(table, _method(table, " ".join(fields[:-1])), None, None), True
    *method, ops, ops_unit, us, us_unit = ["", *fields] if len(fields) > 4 else ["", "", "", "", ""]
    ops_match, slow = _OPS.fullmatch(ops), re.fullmatch(INT, us)
    if not ops_match or not slow or "/" not in ops_unit or "/" not in us_unit:
        raise unreadable(place, line)
    return Rate(
        table, _method(table, " ".join(method).strip()), float(f"{ops_match[1]}.{ops_match[2]}"), int(us)
    ), False


def _method(table: str, name: str) -> str:
    size = _SIZE.search(name) if table == "open_sync_sizes" else None
    return f"{size[1]} * {size[2]}kB" if size else name


def parse_pg_test_fsync(raw: bytes) -> Report:
    """Parse a report. `missing` names what an incomplete output lacks. Raises FormatError if nothing was measured."""
    reader = _Reader()
    for place, line in whole_lines(raw, WHERE)[0]:
        reader.line(line, place)
    if not reader.rates:
        raise FormatError(WHERE, "the output contains none of its tables", hint="give the output of pg_test_fsync")
    return Report(
        seconds_per_test=_seconds(reader.head),
        o_direct=any(name in line for line in reader.head for name in ("O_DIRECT", "F_NOCACHE")),
        rates=tuple(reader.rates),
        footnote=reader.footnote,
        missing=_missing(reader.rates),
    )


def _seconds(head: list[str]) -> int | None:
    match = re.search(r"[0-9]{1,9}", head[0]) if head else None
    return int(match[0]) if match else None


def _missing(rates: list[Rate]) -> tuple[str, ...]:
    present = {(rate.table, rate.method) for rate in rates}
    expected = [(table, method) for table, methods in TABLES.items() for method in methods]
    return tuple(f"{table}: {method}" for table, method in expected if (table, method) not in present)
