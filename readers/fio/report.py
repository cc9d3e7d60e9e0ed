"""Parse fio's JSON and JSON+ output of fio 2.x and 3.x.

Source: show_thread_status_json() and add_ddir_status_json() in fio's stat.c, and samples of real runs. Latencies are
`clat` in microseconds in 2.x and `clat_ns` since 3.0; `io_bytes` held KiB until `io_kbytes` was added. The keys
decide which, not the version. Percentiles and bins belong to `clat`, or to `lat` with lat_percentiles."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from common.errors import FormatError
from readers.histogram import Histogram
from readers.text import lines_of, shown

WHERE = "fio JSON"
DIRECTIONS = ("read", "write", "trim", "mixed")

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Latency:
    """slat, clat, lat or sync latency in nanoseconds. `percentiles_ns`: percentage -> ns. Only JSON+ has a
    `histogram`."""

    min_ns: float
    max_ns: float
    mean_ns: float
    stddev_ns: float
    samples: int | None = None
    percentiles_ns: tuple[tuple[float, int], ...] = ()
    histogram: Histogram | None = None


@dataclass(frozen=True)
class Spread:
    """The distribution of the rates that fio sampled during the run (by default one sample per job every half
    second)."""

    min: float
    max: float
    mean: float
    stddev: float
    samples: int | None


@dataclass(frozen=True)
class Bucket:
    """`percent` of the I/Os took at least `low_ns` and less than `high_ns`. fio rounds: a few I/Os are printed as
    0.01."""

    low_ns: float
    high_ns: float
    percent: float


@dataclass(frozen=True)
class Direction:
    """Reads, writes or trims of one job, or all of them mixed.

    `bw_share_pct`: average share of one thread of the job in the group's bandwidth. `bw_kib_s_spread` is in KiB/s.
    `total_ios` is not part of the terse output."""

    io_bytes: int
    bw_kib_s: int
    iops: float
    runtime_ms: int
    total_ios: int | None
    slat: Latency | None
    clat: Latency | None
    lat: Latency | None
    bw_share_pct: float | None = None
    bw_kib_s_spread: Spread | None = None
    iops_spread: Spread | None = None

    @property
    def main_latency(self) -> Latency | None:
        """The latency that has percentiles: clat, or lat if lat_percentiles was set."""
        with_percentiles = (one for one in (self.clat, self.lat) if one and one.percentiles_ns)
        return next(with_percentiles, self.clat or self.lat)


@dataclass(frozen=True)
class Job:
    """One job, or one group with group_reporting. `error` is an errno; a direction without I/O is None.

    `mixed`: all directions together, instead of them or in addition (unified_rw_reporting). `buckets`: completion
    latencies of all directions together, without gaps; every JSON report has them."""

    name: str
    groupid: int
    error: int
    read: Direction | None
    write: Direction | None
    trim: Direction | None
    mixed: Direction | None
    sync: Latency | None
    usr_cpu_pct: float | None
    sys_cpu_pct: float | None
    buckets: tuple[Bucket, ...] = field(default=(), kw_only=True)

    @property
    def directions(self) -> dict[str, Direction]:
        """The directions that did I/O, by name."""
        directions = {name: getattr(self, name) for name in DIRECTIONS}
        return {name: one for name, one in directions.items() if one is not None}


@dataclass(frozen=True)
class Report:
    """The last document of the output. `documents`: how many there are (several with --status-interval)."""

    version: str
    jobs: tuple[Job, ...]
    disks: tuple[str, ...]
    documents: int
    other_lines: tuple[str, ...]

    @property
    def groups(self) -> dict[int, tuple[Job, ...]]:
        """The jobs of each group ID. Groups ran one after another (stonewall), the jobs of a group at the same time."""
        numbers = sorted({job.groupid for job in self.jobs})
        return {number: tuple(job for job in self.jobs if job.groupid == number) for number in numbers}


def parse_fio(raw: bytes) -> Report:
    """Parse fio's JSON output. Raises FormatError if there is none, it is incomplete, or its last document is not a
    fio report."""
    documents, other_lines = _documents(lines_of(raw, WHERE))
    if not documents:
        raise FormatError(
            WHERE, "the output contains no JSON document", hint="fio ended before its report; see its stderr"
        )
    last = documents[-1]
    version = last.get("fio version")
    jobs = last.get("jobs")
    if not isinstance(version, str) or not isinstance(jobs, list):
        raise FormatError(WHERE, "the document has no 'fio version' or no 'jobs'", hint="it is not fio's report")
    return Report(
        version=version.removeprefix("fio-"),
        jobs=tuple(_job(_object(job, f"jobs[{index}]"), f"jobs[{index}]") for index, job in enumerate(jobs)),
        disks=_disks(last.get("disk_util", [])),
        documents=len(documents),
        other_lines=tuple(other_lines),
    )


def parse_fio_stderr(raw: bytes) -> tuple[str, ...]:
    """Return the lines of fio's stderr that are not blank."""
    return tuple(line.rstrip() for line in lines_of(raw, "fio stderr") if line.strip())


def _documents(lines: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return every document that starts with a brace at the start of a line, and the other lines (warnings, the text
    report)."""
    decoder = json.JSONDecoder(parse_constant=_constant)
    documents, others, number = [], [], 0
    while number < len(lines):
        if not lines[number].startswith("{"):
            others.append(lines[number])
            number += 1
            continue
        document, used = _document(decoder, lines, number)
        documents.append(document)
        number += used
    return documents, [line.rstrip() for line in others if line.strip()]


def _document(decoder: json.JSONDecoder, lines: list[str], first: int) -> tuple[dict[str, Any], int]:
    """Return the document that starts at line `first`, and its number of lines. fio closes it with a brace on its
    own line."""
    end = next((n for n in range(first, len(lines)) if lines[n].rstrip() == "}" or n == len(lines) - 1), first)
    text = "\n".join(lines[first : end + 1])
    where = f"{WHERE}, line {first + 1}"
    try:
        document, used = decoder.raw_decode(text)
    except RecursionError:
        raise FormatError(where, "the output is nested too deeply", hint="it is not fio's report") from None
    except ValueError as error:
        raise FormatError(
            where, f"the JSON is cut or damaged: {error}", hint="the run was killed, or the output edited"
        ) from None
    rest = text[used:].strip()
    if rest:
        raise FormatError(where, f"{shown(rest)} follows the JSON", hint="the output was edited")
    return document, end - first + 1


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a figure")


def _job(job: Object, where: str) -> Job:
    name = job.get("jobname")
    if not isinstance(name, str):
        raise FormatError(WHERE, f"{where} has no jobname", hint="it is not fio's report")
    directions = {key: _direction(job.get(key), f"{where}.{key}") for key in DIRECTIONS}
    return Job(
        name=name,
        groupid=_integer(job, "groupid", where, default=0),
        error=_integer(job, "error", where, default=0),
        sync=_latency(_section(job, "sync", where), "lat", f"{where}.sync"),
        usr_cpu_pct=_optional(job, "usr_cpu", where),
        sys_cpu_pct=_optional(job, "sys_cpu", where),
        buckets=tuple(_buckets(job, where)),
        **directions,
    )


def _direction(value: Any, where: str) -> Direction | None:
    if value is None:
        return None
    direction = _object(value, where)
    total_ios = _integer(direction, "total_ios", where)
    if total_ios == 0:
        return None
    return Direction(
        io_bytes=_integer(direction, "io_bytes", where) * (1 if "io_kbytes" in direction else 1024),
        bw_kib_s=_integer(direction, "bw", where),
        iops=_number(direction, "iops", where),
        runtime_ms=_integer(direction, "runtime", where),
        total_ios=total_ios,
        slat=_latency(direction, "slat", where),
        clat=_latency(direction, "clat", where),
        lat=_latency(direction, "lat", where),
        bw_share_pct=_optional(direction, "bw_agg", where),
        bw_kib_s_spread=_spread(direction, ("bw_min", "bw_max", "bw_mean", "bw_dev", "bw_samples"), where),
        iops_spread=_spread(direction, ("iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"), where),
    )


def _spread(direction: Object, keys: tuple[str, ...], where: str) -> Spread | None:
    """Return None if nothing was sampled, as in a run under half a second. Since fio 3.0 the samples are counted."""
    *figures, counted = keys
    if not all(direction.get(key) for key in (figures[1], counted) if key in direction) or figures[1] not in direction:
        return None
    lowest, highest, mean, stddev = (_number(direction, key, where) for key in figures)
    return Spread(lowest, highest, mean, stddev, _integer(direction, counted, where) if counted in direction else None)


def _latency(parent: Object, name: str, where: str) -> Latency | None:
    """Return `name`_ns as it is, or `name` converted from microseconds; None if it is missing or counted nothing."""
    key, factor = (f"{name}_ns", 1) if f"{name}_ns" in parent else (name, 1000)
    where = f"{where}.{key}"
    section = _section(parent, key, where)
    samples = _integer(section, "N", where) if "N" in section else None
    if not section or samples == 0:
        return None
    return Latency(
        min_ns=_number(section, "min", where) * factor,
        max_ns=_number(section, "max", where) * factor,
        mean_ns=_number(section, "mean", where) * factor,
        stddev_ns=_number(section, "stddev", where) * factor,
        samples=samples,
        percentiles_ns=_percentiles(_section(section, "percentile", where), factor, where),
        histogram=_histogram(_section(section, "bins", where), factor, f"{where}.bins"),
    )


_BUCKETS = (("latency_ns", 1), ("latency_us", 1000), ("latency_ms", 1_000_000))  # absent before 3.0


def _buckets(job: Object, where: str) -> Iterator[Bucket]:
    """Yield the buckets from the first to the last that counted something. A key is the upper limit of its bucket;
    the last one, ">=2000" ms, has no limit."""
    buckets, low = list[Bucket](), 0.0
    for name, factor in _BUCKETS:
        for key in _section(job, name, where):
            high = math.inf if key.startswith(">=") else _key(key, f"{where}.{name}") * factor
            buckets.append(Bucket(low, high, _number(job[name], key, f"{where}.{name}")))
            low = high
    counted = [place for place, bucket in enumerate(buckets) if bucket.percent]
    return iter(buckets[counted[0] : counted[-1] + 1] if counted else [])


def _percentiles(section: Object, factor: int, where: str) -> tuple[tuple[float, int], ...]:
    # Up to 3.1 fio fills unused entries of the list with "0.00" : 0.
    pairs = ((_key(key, where), _integer(section, key, where) * factor) for key in section)
    return tuple(sorted((percentage, ns) for percentage, ns in pairs if percentage > 0))


_INDEXED = ("FIO_IO_U_PLAT_BITS", "FIO_IO_U_PLAT_VAL", "FIO_IO_U_PLAT_NR")


def _histogram(section: Object, factor: int, where: str) -> Histogram | None:
    """Return the bins by latency. The first releases with JSON+ number their bins and print the constants that
    convert a number to a latency."""
    counted = {key: count for key in section if key not in _INDEXED and (count := _integer(section, key, where))}
    bits = _integer(section, _INDEXED[0], where, default=-1)
    if bits > 16:
        raise FormatError(WHERE, f"{where}.{_INDEXED[0]} is {bits}", hint="fio has 6")
    values = {key: _key(key, where) if bits < 0 else _middle(int(_key(key, where)), bits) for key in counted}
    bins = sorted((round(values[key] * factor), count) for key, count in counted.items())
    return Histogram(tuple(bins), factor) if bins else None


def _middle(number: int, bits: int) -> float:
    """Return the middle of a bin, given its number: each doubling of the latency has 2^bits bins; the first two
    doublings have bins of one unit."""
    doubling, place = divmod(number, 1 << bits)
    if doubling > 64:
        raise FormatError(WHERE, f"bin {number} does not exist", hint="fio has 1216 or 1856 bins")
    return number if doubling < 2 else ((1 << bits) + place + 0.5) * (1 << (doubling - 1))


_NUMERAL = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")


def _key(text: str, where: str) -> float:
    if not _NUMERAL.fullmatch(text):
        raise FormatError(WHERE, f"{where} has the key {shown(text)}", hint="expected a number")
    return float(text)


def _object(value: Any, where: str) -> Object:
    if not isinstance(value, dict):
        raise FormatError(WHERE, f"{where} is {shown(json.dumps(value))}", hint="expected an object")
    return value


def _section(parent: Object, key: str, where: str) -> Object:
    return _object(parent[key], f"{where}.{key}") if key in parent else {}


def _number(parent: Object, key: str, where: str) -> float:
    value = parent.get(key)
    # bool is an int in Python but not in fio. The limit keeps later products finite.
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 <= value <= 1e18) or math.isnan(value):
        raise FormatError(WHERE, f"{where}.{key} is {shown(json.dumps(value))}", hint="expected a number of at least 0")
    return float(value)


def _integer(parent: Object, key: str, where: str, default: int | None = None) -> int:
    if default is not None and key not in parent:
        return default
    value = _number(parent, key, where)
    if not value.is_integer():
        raise FormatError(WHERE, f"{where}.{key} is {value}", hint="expected a whole number")
    return int(parent[key])


def _optional(parent: Object, key: str, where: str) -> float | None:
    return _number(parent, key, where) if key in parent else None


def _disks(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise FormatError(WHERE, "disk_util is not a list", hint="it is not fio's report")
    names = (_object(disk, f"disk_util[{index}]").get("name") for index, disk in enumerate(value))
    return tuple(name for name in names if isinstance(name, str))
