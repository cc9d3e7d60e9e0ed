"""Parse fio's terse output (--minimal, --output-format=terse), versions 3, 4 and 5: one line per job, fields separated
by semicolons.

Source: show_thread_status_terse_all() and show_ddir_status_terse() in fio's stat.c. Latencies are microseconds,
bandwidths KiB/s; the output has no numbers of I/Os. Version 3 has reads and writes; 4 and 5 add trims; 5 adds the
number of bandwidth samples, and IOPS samples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.errors import FormatError
from readers.fio.report import Direction, Job, Latency, Spread
from readers.text import unreadable, whole_lines

WHERE = "fio terse"
WAYS = {"3": ("read", "write"), "4": ("read", "write", "trim"), "5": ("read", "write", "trim")}
_PERCENTILES = 20
_FIELDS = {"3": 41, "4": 41, "5": 47}  # of one direction
_HEAD, _CPU = 5, 5
_LEAST_AFTER = _CPU + 7 + 10 + 12  # CPU, and the shares of queue depths and latencies
_PERCENTILE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%=([0-9]{1,18})")
_FIGURE = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?%?")


@dataclass(frozen=True)
class TerseReport:
    """A parsed terse output. `cut`: the last line was incomplete and is left out."""

    version: str
    jobs: tuple[Job, ...]
    cut: bool


def parse_fio_terse(raw: bytes) -> TerseReport:
    """Parse the jobs. Raises FormatError if there is none, or if a line has too few fields or is not from fio."""
    lines, cut = whole_lines(raw, WHERE)
    rows = [_job(line, place) for place, line in lines if line[:2] in ("3;", "4;", "5;")]
    if not rows:
        raise FormatError(
            WHERE, "the output contains no job", hint="give the output of fio --minimal, terse version 3, 4 or 5"
        )
    return TerseReport(rows[-1][0], tuple(job for _, job in rows), cut)


def _job(line: str, place: str) -> tuple[str, Job]:
    fields = line.split(";")
    version = fields[0]
    ways, width = WAYS[version], _FIELDS[version]
    after = _HEAD + width * len(ways)
    if len(fields) < after + _LEAST_AFTER:
        raise FormatError(place, f"{len(fields)} fields", hint=f"a job has {after + _LEAST_AFTER} or more")
    try:
        directions = {
            way: _direction(fields[_HEAD + width * number : _HEAD + width * (number + 1)])
            for number, way in enumerate(ways)
        }
        usr, sys = (_number(field) for field in fields[after : after + 2])
        return fields[1].removeprefix("fio-"), Job(
            name=fields[2],
            groupid=int(_number(fields[3])),
            error=int(_number(fields[4])),
            read=directions["read"],
            write=directions["write"],
            trim=directions.get("trim"),
            mixed=None,
            sync=None,
            usr_cpu_pct=usr,
            sys_cpu_pct=sys,
        )
    except ValueError:
        raise unreadable(place, line) from None


def _direction(fields: Sequence[str]) -> Direction | None:
    """Return None for a direction without I/O. Raises ValueError for a field that is not a number."""
    io_kib, bw, iops, runtime = map(_number, fields[:4])
    after = 12 + _PERCENTILES
    percentiles = tuple(_percentiles(fields[12:after]))
    spread = [_number(field) for field in fields[after + 4 : after + 9]]
    rates = [_number(field) for field in fields[after + 9 :]]
    if not runtime or not io_kib:
        return None
    return Direction(
        io_bytes=int(io_kib) * 1024,
        bw_kib_s=int(bw),
        iops=iops,
        runtime_ms=int(runtime),
        total_ios=None,
        slat=_latency(fields[4:8]),
        clat=_latency(fields[8:12], percentiles),
        lat=_latency(fields[after : after + 4]),
        bw_share_pct=spread[2],
        bw_kib_s_spread=_spread(spread[:2] + spread[3:], rates[0] if rates else None),
        iops_spread=_spread(rates[1:5], rates[5]) if len(rates) > 5 else None,
    )


def _latency(fields: Sequence[str], percentiles: tuple[tuple[float, int], ...] = ()) -> Latency | None:
    lowest, highest, mean, stddev = (round(1000 * _number(field), 3) for field in fields)
    return Latency(lowest, highest, mean, stddev, percentiles_ns=percentiles) if highest or mean else None


def _percentiles(fields: Sequence[str]) -> Iterator[tuple[float, int]]:
    for field in fields:
        match = _PERCENTILE.fullmatch(field)
        if match is None:
            raise ValueError(field)
        if float(match[1]):  # unused entries of the list are "0%=0"
            yield float(match[1]), int(match[2]) * 1000


def _spread(figures: Sequence[float], samples: float | None) -> Spread | None:
    if not any(figures):
        return None
    lowest, highest, mean, stddev = figures
    return Spread(lowest, highest, mean, stddev, None if samples is None else int(samples))


def _number(field: str) -> float:
    if not _FIGURE.fullmatch(field.strip()):
        raise ValueError(field)
    value = float(field.strip().removesuffix("%"))
    return value if math.isfinite(value) else 0.0
