"""Parse tables of figures in CSV: a heading, rows of cells, and the numbers and times in them."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from common.errors import FormatError

MOST_COLUMNS = 120
MOST_ROWS = 100_000
LONGEST_CELL = 10_000
_DELIMITERS = (",", ";", "\t")
_UNIT = re.compile(r"(?P<name>.*?)\s*[(\[](?P<unit>[^()\[\]]{1,20})[)\]]\s*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,3})?")
# First characters that a spreadsheet would read as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Row:
    """`line` counts from 1, as editors do."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    delimiter: str

    def column(self, name: str) -> list[str]:
        """Return the non-empty cells of a column in complete rows. A short row does not tell which columns its cells
        belong to."""
        place = self.head.index(name)
        return [row.cells[place] for row in self.rows if self.whole(row) and row.cells[place]]

    def whole(self, row: Row) -> bool:
        return len(row.cells) == len(self.head)


def decode(raw: bytes, name: str) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark as spreadsheets write it. Raises FormatError for anything else."""
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeError as error:
        raise FormatError(name, f"not UTF-8: {error}", hint="save it as UTF-8") from error
    if "\0" in text:
        raise FormatError(name, "the file contains NUL characters", hint="this is not text; save it as UTF-8")
    return text


def read_table(raw: bytes, name: str) -> Table:
    """Parse a table with a heading. Raises FormatError with the line that cannot be read."""
    text = decode(raw, name)
    first = text.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: list[Row] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                lines.append(Row(reader.line_num, tuple(cell.strip() for cell in cells)))
            if len(lines) > MOST_ROWS:
                raise FormatError(name, f"more than {MOST_ROWS} rows", hint="import it in parts")
    except csv.Error as error:
        raise FormatError(f"{name}, line {reader.line_num}", f"not valid CSV: {error}", hint="quote text") from error
    if len(lines) < 2:
        raise FormatError(name, "a line of names and at least one row are required", hint="name,name then 1,2")
    _check_head(lines[0].cells, name)
    _check_rows(lines, name)
    return Table(lines[0].cells, tuple(lines[1:]), delimiter)


def _check_head(head: Sequence[str], name: str) -> None:
    where = f"{name}, line 1"
    if len(head) > MOST_COLUMNS:
        raise FormatError(where, f"{len(head)} columns; at most {MOST_COLUMNS} are accepted", hint="remove some")
    for cell in head:
        if number(cell) is not None or _iso(cell) is not None:
            raise FormatError(
                where, f"{cell!r} is a value, not the name of a column", hint="add a line of names at the top"
            )
        if not cell or len(cell) > 120 or not cell.isprintable() or head.count(cell) > 1:
            raise FormatError(where, f"{cell[:80]!r} is not a valid name of a column", hint="use distinct names")


def _check_rows(lines: Sequence[Row], name: str) -> None:
    for row in lines[1:]:
        if len(row.cells) > len(lines[0].cells):
            hint = f"a row has at most {len(lines[0].cells)} cells; quote cells that contain commas"
            raise FormatError(f"{name}, line {row.line}", f"{len(row.cells)} cells", hint=hint)
        if any(len(cell) > LONGEST_CELL for cell in row.cells):
            raise FormatError(f"{name}, line {row.line}", f"a cell longer than {LONGEST_CELL} characters")


def number(cell: str, comma: bool = False) -> float | None:
    """Return a finite number; None for anything else. `comma`: the table has semicolons and decimal commas."""
    text = cell.replace(",", ".", 1) if comma else cell
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def moment(cell: str, where: str) -> datetime:
    """Parse an ISO 8601 time or seconds since 1970; UTC without a time zone. Raises FormatError."""
    parsed = _iso(cell)
    if parsed is None and (seconds := number(cell)) is not None and 0 < seconds < 32_503_680_000:
        parsed = datetime.fromtimestamp(seconds, UTC)
    if parsed is None:
        raise FormatError(
            where, f"{cell[:80]!r} is not a time", hint="accepted: 2026-03-14T09:26:53+00:00, or seconds since 1970"
        )
    return parsed


def _iso(cell: str) -> datetime | None:
    if len(cell) < 8 or not re.match(r"[0-9]{4}-[0-9]{2}-", cell):
        return None
    try:
        parsed = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def named(header: str) -> tuple[str, str]:
    """Split a heading into name and unit: "idx1(ms)" -> ("idx1", "ms"). The unit may be empty."""
    match = _UNIT.fullmatch(header)
    return (match["name"], match["unit"]) if match and match["name"] else (header, "")


def plain(cell: str) -> str:
    """Return a text without the apostrophe that keeps spreadsheets from reading it as a formula."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def disarmed(cell: object) -> object:
    """Return a cell for CSV: a text that a spreadsheet would read as a formula gets an apostrophe. `plain` reverses
    it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def is_time(cell: str) -> bool:
    return _iso(cell) is not None
