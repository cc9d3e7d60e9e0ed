"""Parse the table of the published `cache-split` experiment: one row per combination, latencies with and without huge
pages.

If the kernel did not provide the huge pages, a row only has `hugepage_error` and the time."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from common.errors import FormatError
from readers.text import INT, NUMBER, is_unfinished, lines_of, shown

WHERE = "the CSV"
COLUMNS = (
    "huge_pages(2MiB)",
    "pg_cache",
    "pg_cache(KiB)",
    "idx1(ms)",
    "seq(ms)",
    "idx2(ms)",
    "heap_blks_read",
    "heap_blks_hit",
    "idx_blks_read",
    "idx_blks_hit",
    "finish",
)
HUGEPAGE_ERROR = "hugepage_error"

_MOST_FIELDS = 100
_SIZE = re.compile(r"([0-9]{1,12})(kB|MB|GB)")
_WHOLE_TIME = re.compile(r"T[0-9:.]{8,15}[+-][0-9]{2}:[0-9]{2}$")
_KIB = {"kB": 1, "MB": 1024, "GB": 1024 * 1024}


@dataclass(frozen=True)
class Cell:
    """One row: reserved `huge_pages` of 2 MiB, shared_buffers, mean latencies, and blocks of the table."""

    line: int
    huge_pages: int
    shared_buffers: str
    shared_buffers_kib: int
    idx1_ms: float
    seq_ms: float
    idx2_ms: float
    heap_blks_read: int
    heap_blks_hit: int
    idx_blks_read: int
    idx_blks_hit: int
    finished_at: datetime


@dataclass(frozen=True)
class NotMeasured:
    """A row with the reason why there is no result."""

    line: int
    why: str
    finished_at: datetime


@dataclass(frozen=True)
class Table:
    """All rows, in order. `missing`: what an incomplete last row lacks; that row is not part of `cells`."""

    cells: tuple[Cell, ...]
    not_measured: tuple[NotMeasured, ...]
    missing: tuple[str, ...] = ()


def parse_huge_page_csv(raw: bytes) -> Table:
    """Parse the table. Raises FormatError with line and column for a header or value that the script does not write."""
    rows = list(_rows(raw))
    if not rows:
        raise FormatError(WHERE, "the file is empty", hint=f"expected the header {','.join(COLUMNS)}")
    header, *body = rows
    _check_header(*header)
    cut = bool(body) and is_unfinished(raw) and not _WHOLE_TIME.search(body[-1][1][-1])
    missing = COLUMNS[len(body[-1][1]) - 1 :] if cut else ()
    parsed = [_row(line, fields) for line, fields in (body[:-1] if cut else body)]
    return Table(
        tuple(one for one in parsed if isinstance(one, Cell)),
        tuple(one for one in parsed if isinstance(one, NotMeasured)),
        tuple(f"line {body[-1][0]}, {column}" for column in missing),
    )


def _rows(raw: bytes) -> Iterator[tuple[int, list[str]]]:
    lines = lines_of(raw, WHERE)
    reader = csv.reader(lines, strict=True)
    try:
        for fields in reader:
            if len(fields) > _MOST_FIELDS:
                raise FormatError(f"{WHERE}, line {reader.line_num}", f"{len(fields)} columns", hint="expected 11")
            if fields:
                yield reader.line_num, [field.strip() for field in fields]
    except csv.Error as error:
        raise FormatError(f"{WHERE}, line {reader.line_num}", str(error), hint="expected plain CSV") from None


def _check_header(line: int, header: list[str]) -> None:
    if tuple(header) != COLUMNS:
        header_text = shown(",".join(header))
        raise FormatError(f"{WHERE}, line {line}", f"the header is {header_text}", hint=f"expected {','.join(COLUMNS)}")


def _row(line: int, fields: list[str]) -> Cell | NotMeasured:
    if len(fields) == 2 and fields[0] == HUGEPAGE_ERROR:
        return NotMeasured(line, fields[0], _time(fields[1], line))
    if len(fields) != len(COLUMNS):
        hint = f"expected {len(COLUMNS)}, or {HUGEPAGE_ERROR} and a time"
        raise FormatError(f"{WHERE}, line {line}", f"{len(fields)} columns", hint=hint)
    whole = {
        name: _whole(fields[place], line, name) for place, name in enumerate(COLUMNS) if place in (0, 2, 6, 7, 8, 9)
    }
    times = {name: _number(fields[place], line, name) for place, name in enumerate(COLUMNS) if place in (3, 4, 5)}
    return Cell(
        line=line,
        huge_pages=whole["huge_pages(2MiB)"],
        shared_buffers=_size(fields[1], whole["pg_cache(KiB)"], line),
        shared_buffers_kib=whole["pg_cache(KiB)"],
        idx1_ms=times["idx1(ms)"],
        seq_ms=times["seq(ms)"],
        idx2_ms=times["idx2(ms)"],
        heap_blks_read=whole["heap_blks_read"],
        heap_blks_hit=whole["heap_blks_hit"],
        idx_blks_read=whole["idx_blks_read"],
        idx_blks_hit=whole["idx_blks_hit"],
        finished_at=_time(fields[10], line),
    )


def _refused(line: int, column: str, text: str, expected: str) -> FormatError:
    return FormatError(f"{WHERE}, line {line}, {column}", f"the value is {shown(text)}", hint=f"expected {expected}")


def _whole(text: str, line: int, column: str) -> int:
    if not re.fullmatch(INT, text):
        raise _refused(line, column, text, "a whole number")
    return int(text)


def _number(text: str, line: int, column: str) -> float:
    if not re.fullmatch(NUMBER, text):
        raise _refused(line, column, text, "a number with a decimal point")
    return float(text)


def _size(text: str, kib: int, line: int) -> str:
    match = _SIZE.fullmatch(text)
    if match is None or int(match[1]) * _KIB[match[2]] != kib:
        raise _refused(line, "pg_cache", text, f"the size of {kib} KiB in kB, MB or GB")
    return text


def _time(text: str, line: int) -> datetime:
    try:
        finish = datetime.fromisoformat(text)
    except ValueError:
        raise _refused(line, "finish", text, "a time such as 2026-11-21T00:57:32+00:00") from None
    if finish.tzinfo is None:
        raise _refused(line, "finish", text, "a time with its offset from UTC")
    return finish
