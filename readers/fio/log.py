"""Parse fio's logs over time (write_bw_log, write_iops_log, write_lat_log) of fio 2.x and 3.x.

Source: flush_samples() in fio's iolog.c, "Log File Formats" in its manual, and logs of real runs. Only the file name
tells what the values are (`x_bw.1.log`); see log_unit(). A row: time in ms, value, direction, block size, [offset
with log_offset], [priority in newer releases, hexadecimal with log_prio]. With log_avg_msec there is one row per
window and direction, with block size and offset 0."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field

from common.errors import FormatError
from readers.text import unreadable, whole_lines

WHERE = "fio log"
DIRECTIONS = ("read", "write", "trim")
_UNITS = {"bw": "KiB/s", "iops": "IOPS", "lat": "ns", "clat": "ns", "slat": "ns"}


@dataclass(frozen=True)
class Series:
    """The rows of one direction in the order of the log: milliseconds since the start of the job, and values."""

    direction: str
    time_ms: array[int]
    values: array[int]


@dataclass(frozen=True)
class Log:
    """A parsed log. `series`: one for each direction that did I/O. `cut`: the last row was incomplete and is left
    out."""

    series: tuple[Series, ...]
    cut: bool

    def direction(self, name: str) -> Series | None:
        return next((series for series in self.series if series.direction == name), None)


def log_unit(file_name: str) -> tuple[str, str] | None:
    """Return the quantity and unit of a log by its file name: `x_clat.1.log` -> ("clat", "ns").

    Latencies are nanoseconds since fio 3.0, microseconds before. None for any other file name, including the
    histograms of clat_hist."""
    match = re.search(r"_(bw|iops|slat|clat|lat)(?:\.[0-9]{1,9})?\.log$", file_name)
    return (match[1], _UNITS[match[1]]) if match else None


_ROW = re.compile(
    r"(?P<time>[0-9]{1,18}), (?P<value>[0-9]{1,18}), (?P<direction>[012]), [0-9]{1,18}"
    r"(?:, [0-9]{1,18})?(?:, (?:[0-9]{1,9}|0x[0-9a-f]{4,8}))?"
)
_COLUMNS_OF_HISTOGRAM = 100


@dataclass
class _Columns:
    time_ms: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))


def parse_fio_log(raw: bytes) -> Log:
    """Parse one log. Raises FormatError for an empty log, and for a complete row that fio does not write."""
    columns: dict[str, _Columns] = {}
    lines, cut = whole_lines(raw, WHERE)
    for place, line in lines:
        row = _ROW.fullmatch(line)
        if row is None:
            raise _refusal(place, line)
        direction_columns = columns.setdefault(DIRECTIONS[int(row["direction"])], _Columns())
        direction_columns.time_ms.append(int(row["time"]))
        direction_columns.values.append(int(row["value"]))
    if not columns:
        raise FormatError(
            WHERE, "the log has no rows", hint="fio writes no rows for latencies that its engine does not measure"
        )
    ordered = (name for name in DIRECTIONS if name in columns)
    return Log(tuple(Series(n, columns[n].time_ms, columns[n].values) for n in ordered), cut)


def _refusal(place: str, line: str) -> FormatError:
    if line.count(",") > _COLUMNS_OF_HISTOGRAM:
        return FormatError(place, "the log is a histogram log", hint="give the bw, iops or lat log, or fio's JSON+")
    return unreadable(place, line)
