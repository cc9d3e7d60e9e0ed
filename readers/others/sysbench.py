"""Parse sysbench 1.0 and 1.1, SQL tests: the final report, its intervals, `prepare`, and failures.

Source: db_report_intermediate() and db_report_cumulative() in src/db_driver.c, report_cumulative() in
src/sysbench.c. The time is under `General statistics` in 1.0 and `Throughput` in 1.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Any

from common.errors import FormatError
from readers.text import INT, NUMBER, Rows, each_line, finished, is_unfinished, lines_of, rule, rule_for, shown

WHERE = "sysbench"
WHERE_PREPARE = "sysbench prepare"
TPS_DEFINITION = "transactions per second of the total time; ignored errors are not transactions"


@dataclass(frozen=True)
class Interval:
    """One line of --report-interval, for the interval that ends at `t_s`. `lat_ms` is the percentile `lat_pct`."""

    t_s: float
    threads: int
    tps: float
    qps: float
    read_per_s: float
    write_per_s: float
    other_per_s: float
    lat_pct: int
    lat_ms: float
    err_per_s: float
    reconn_per_s: float


@dataclass(frozen=True)
class Run:
    """A complete report.

    `percentiles_ms`: percentage -> ms; only the 95th by default, none if disabled. `histogram`: latency in ms ->
    events, with --histogram. `tps_definition`: which rate `tps` is. The fairness of threads, at the end, is None if
    the output ends before it."""

    queries_read: int
    queries_write: int
    queries_other: int
    queries_total: int
    transactions: int
    tps: float
    queries: int
    qps: float
    ignored_errors: int
    ignored_errors_per_s: float
    reconnects: int
    reconnects_per_s: float
    total_time_s: float
    events: int
    latency_min_ms: float
    latency_avg_ms: float
    latency_max_ms: float
    latency_sum_ms: float
    events_avg: float | None = None
    events_stddev: float | None = None
    time_avg_s: float | None = None
    time_stddev_s: float | None = None
    percentiles_ms: tuple[tuple[float, float], ...] = ()
    events_per_s: float | None = None
    version: str | None = None
    threads: int | None = None
    tps_definition: str = TPS_DEFINITION
    intervals: Rows[Interval] = Rows(b"", lambda _: (), 0)  # noqa: RUF009
    histogram: tuple[tuple[float, int], ...] = ()
    other_lines: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        return ("threads fairness",) if self.events_avg is None or self.time_avg_s is None else ()


@dataclass(frozen=True)
class Table:
    """A table that `prepare` created; `rows` is None if it was not filled."""

    name: str
    rows: int | None
    secondary_index: bool


@dataclass(frozen=True)
class Prepare:
    """The result of `prepare`: `tables` of oltp_*, `warehouses` of TPC-C. sysbench prints no end mark. `cut`: the
    last line was incomplete and is left out."""

    version: str | None
    tables: tuple[Table, ...]
    warehouses: tuple[int, ...]
    cut: bool = False


@dataclass(frozen=True)
class Failure:
    """The FATAL lines of a sysbench that ended without a report."""

    fatal: tuple[str, ...]


def _rate(prefix: str, count: str, per_s: str) -> Any:
    types: dict[str, Any] = {count: int, per_s: float}
    return rule(prefix, rf"\s+(?P<{count}>{INT})\s+\((?P<{per_s}>{NUMBER}) per sec\.\)", **types)


def _figure(prefix: str, name: str, pattern: str, kind: type, unit: str = "") -> Any:
    return rule(prefix, rf"\s+(?P<{name}>{pattern}){unit}", **{name: kind})


RULES = (
    rule("sysbench ", r"(?P<version>[0-9]\S{0,40})(?: .*)?", version=str),
    rule("Number of threads: ", rf"(?P<threads>{INT})", threads=int),
    _figure("read:", "queries_read", INT, int),
    _figure("write:", "queries_write", INT, int),
    _figure("other:", "queries_other", INT, int),
    _figure("total:", "queries_total", INT, int),
    _rate("transactions:", "transactions", "tps"),
    _rate("queries:", "queries", "qps"),
    _rate("ignored errors:", "ignored_errors", "ignored_errors_per_s"),
    _rate("reconnects:", "reconnects", "reconnects_per_s"),
    _figure("total time:", "total_time_s", NUMBER, float, "s"),
    _figure("time elapsed:", "total_time_s", NUMBER, float, "s"),
    _figure("events/s (eps):", "events_per_s", NUMBER, float),
    _figure("total number of events:", "events", INT, int),
    _figure("min:", "latency_min_ms", NUMBER, float),
    _figure("avg:", "latency_avg_ms", NUMBER, float),
    _figure("max:", "latency_max_ms", NUMBER, float),
    _figure("sum:", "latency_sum_ms", NUMBER, float),
    rule(
        "events (avg/stddev):",
        rf"\s+(?P<events_avg>{NUMBER})/(?P<events_stddev>{NUMBER})",
        events_avg=float,
        events_stddev=float,
    ),
    rule(
        "execution time (avg/stddev):",
        rf"\s+(?P<time_avg_s>{NUMBER})/(?P<time_stddev_s>{NUMBER})",
        time_avg_s=float,
        time_stddev_s=float,
    ),
)
_PERCENTILE = re.compile(rf"([0-9]{{1,3}})(?:st|nd|rd|th) percentile:\s+({NUMBER})")
_HEADINGS = (
    "SQL statistics:",
    "queries performed:",
    "General statistics:",
    "Throughput:",
    "Latency (ms):",
    "Threads fairness:",
    "percentile stats:",
    "Latency histogram (values are in milliseconds)",
    "value  ------------- distribution ------------- count",
)

_INTERVAL = re.compile(
    rf"\[ (?P<t_s>{NUMBER})s \] thds: (?P<threads>{INT}) tps: (?P<tps>{NUMBER}) qps: (?P<qps>{NUMBER}) "
    rf"\(r/w/o: (?P<read_per_s>{NUMBER})/(?P<write_per_s>{NUMBER})/(?P<other_per_s>{NUMBER})\) "
    rf"lat \(ms,(?P<lat_pct>[0-9]{{1,3}})%\): (?P<lat_ms>{NUMBER}) "
    rf"err/s:? (?P<err_per_s>{NUMBER}) reconn/s: (?P<reconn_per_s>{NUMBER})"
)
_IS_INTERVAL = re.compile(rf"\[ {NUMBER}s \] thds:")
_INTS = ("threads", "lat_pct")
_BIN = re.compile(rf"(?P<ms>{NUMBER}) \|\**\s+(?P<count>{INT})")


def parse_sysbench(raw: bytes) -> Run:
    """Parse the output of one `run`. Raises FormatError if its report is incomplete, with sysbench's reason if it
    failed."""
    fields: dict[str, Any] = {}
    bins: list[tuple[float, int]] = []
    percentiles: list[tuple[float, float]] = []
    others: list[str] = []
    counted, whole = 0, finished(raw)
    for number, line in enumerate(each_line(whole, WHERE), 1):
        line, where = line.strip(), f"{WHERE}, line {number}"
        known, percentile, bin_ = rule_for(line, RULES), percentile_of(line), _BIN.fullmatch(line)
        if _IS_INTERVAL.match(line):
            _interval(line, where)
            counted += 1
        elif bin_:
            bins.append((float(bin_["ms"]), int(bin_["count"])))
        elif percentile:
            percentiles.append(percentile)
        elif known:
            put(fields, known.read(line, where), where)
        elif line and not line.startswith(_HEADINGS):
            others.append(line)
    _check_whole(fields, others)
    return Run(
        **fields,
        percentiles_ms=tuple(percentiles),
        intervals=Rows(whole, _intervals, counted),
        histogram=tuple(bins),
        other_lines=tuple(others),
    )


def percentile_of(line: str) -> tuple[float, float] | None:
    """Return percentage and milliseconds of a line such as "95th percentile: 1.01"; None for any other line."""
    match = _PERCENTILE.fullmatch(line)
    return (_percentage(match[1]), float(match[2])) if match else None


def _percentage(text: str) -> float:
    # Builds that print several percentiles write 999th for 99.9.
    return int(text) / 10 if len(text) == 3 and text != "100" else float(text)


def _intervals(raw: bytes) -> Iterator[Interval]:
    lines = (line.strip() for line in each_line(raw, WHERE))
    return (_interval(line, WHERE) for line in lines if _IS_INTERVAL.match(line))


def _interval(line: str, where: str) -> Interval:
    match = _INTERVAL.fullmatch(line)
    if match is None:
        raise FormatError(where, f"cannot read {shown(line)}", hint="the output is cut, edited or localised")
    figures: dict[str, Any] = {
        name: int(text) if name in _INTS else float(text) for name, text in match.groupdict().items()
    }
    return Interval(**figures)


def put(fields: dict[str, Any], line_fields: dict[str, Any], where: str) -> None:
    """Add the fields of a line. Raises FormatError if an earlier line had one of them."""
    repeated = sorted(fields.keys() & line_fields.keys())
    if repeated:
        raise FormatError(where, f"{repeated[0]} appears twice", hint="give one report at a time, without checkpoints")
    fields.update(line_fields)


_REQUIRED = tuple(field.name for field in fields(Run) if field.default is MISSING)


def _check_whole(fields: dict[str, Any], others: list[str]) -> None:
    missing = [name for name in _REQUIRED if name not in fields]
    if not missing:
        return
    fatal = next(_fatal(others), None)
    if fatal:
        raise FormatError(WHERE, f"it failed: {shown(fatal)}", hint="there is no report; fix the cause and run again")
    raise FormatError(WHERE, f"the output contains no {missing[0]}", hint="the run was killed or the output is cut")


def _fatal(lines: list[str]) -> Iterator[str]:
    return (line for line in lines if line.startswith("FATAL: "))


def parse_sysbench_failure(raw: bytes) -> Failure:
    """Parse the reasons of a failed run. Raises FormatError if there is none, or if there is also a report."""
    lines = [line.strip() for line in lines_of(raw, WHERE)]
    fatal = tuple(_fatal(lines))
    if not fatal or "SQL statistics:" in lines:
        raise FormatError(
            WHERE, "this is not the output of a failed run", hint='expected lines that begin with "FATAL: "'
        )
    return Failure(fatal)


_VERSION = re.compile(r"sysbench ([0-9]\S{0,40})(?: .*)?")
_CREATING = re.compile(r"Creating table '([^']{1,200})'\.\.\.")
_INSERTING = re.compile(rf"Inserting ({INT}) records into '([^']{{1,200}})'")
_INDEXING = re.compile(r"Creating a secondary index on '([^']{1,200})'\.\.\.")
_LOADING = re.compile(rf"loading tables: {INT} for warehouse: ({INT})\s*")


def parse_sysbench_prepare(raw: bytes) -> Prepare:
    """Parse the output of `prepare`. Raises FormatError if it created nothing or failed."""
    lines = [line.strip() for line in each_line(finished(raw), WHERE_PREPARE)]
    fatal = next(_fatal(lines), None)
    if fatal:
        raise FormatError(WHERE_PREPARE, f"it failed: {shown(fatal)}", hint="fix the cause and prepare again")
    rows = {match[2]: int(match[1]) for match in map(_INSERTING.fullmatch, lines) if match}
    indexed = {match[1] for match in map(_INDEXING.fullmatch, lines) if match}
    created = [match[1] for match in map(_CREATING.fullmatch, lines) if match]
    warehouses = sorted({int(match[1]) for match in map(_LOADING.fullmatch, lines) if match})
    if not created and not warehouses:
        raise FormatError(WHERE_PREPARE, "no table was created", hint="give the output of sysbench ... prepare")
    version = next((match[1] for match in map(_VERSION.fullmatch, lines) if match), None)
    tables = tuple(Table(name, rows.get(name), name in indexed) for name in created)
    return Prepare(version, tables, tuple(warehouses), is_unfinished(raw))
