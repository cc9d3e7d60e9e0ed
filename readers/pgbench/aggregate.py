"""Parse aggregate logs of pgbench 9.4 to 18 (-l --aggregate-interval): one line per interval, one file per thread.

Source: doLog() and logAgg() in src/bin/pgbench/pgbench.c. Up to 14: start, transactions, and sum, sum of squares,
min and max of the latency; with -R the same four of the lag; with -L also skipped. From 15 on always all of these,
then retried, retries, serialization failures, deadlock failures. pgbench does not write the interval in which it
ends."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from common.errors import FormatError
from readers.text import each_line, finished, is_unfinished, shown

WHERE = "pgbench aggregate log"
COLUMNS = (6, 10, 11, 15)

# Sums of squared microseconds exceed 18 digits within a second.
_LINE = re.compile(r"[0-9]{9,11}(?: [0-9]{1,40}){5,14}")


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval, fields in the order of the columns; None if the release or the options do not write it. `logs`:
    the threads summed up. Fewer than the merged log has: some thread had ended, or not yet started."""

    start_s: int
    transactions: int
    latency_sum_us: int
    latency_sum2_us2: int
    latency_min_us: int
    latency_max_us: int
    lag_sum_us: int | None = None
    lag_sum2_us2: int | None = None
    lag_min_us: int | None = None
    lag_max_us: int | None = None
    skipped: int | None = None
    retried: int | None = None
    retries: int | None = None
    serialization_failures: int | None = None
    deadlock_failures: int | None = None
    logs: int = 1

    @property
    def latency_avg_us(self) -> float | None:
        return _moments([self])[0]

    @property
    def latency_stddev_us(self) -> float | None:
        """The population standard deviation, as pgbench computes it."""
        return _moments([self])[1]


@dataclass(frozen=True)
class AggregateLog:
    """The intervals of one log, or of several merged logs, in order. `cut`: the last line was incomplete and is left
    out."""

    columns: int
    intervals: tuple[Interval, ...]
    logs: int = 1
    cut: bool = False

    @property
    def transactions(self) -> int:
        return sum(interval.transactions for interval in self.intervals)

    @property
    def latency_avg_us(self) -> float | None:
        """The mean of all transactions. The log has sums only, so percentiles cannot be computed."""
        return _moments(self.intervals)[0]

    @property
    def latency_stddev_us(self) -> float | None:
        return _moments(self.intervals)[1]

    @property
    def interval_s(self) -> int | None:
        """The length of an interval; None if there is only one."""
        starts = [interval.start_s for interval in self.intervals]
        return min((later - sooner for sooner, later in pairwise(starts)), default=None)


def _moments(intervals: Iterable[Interval]) -> tuple[float | None, float | None]:
    """Return mean and standard deviation over all transactions; None if there are none."""
    sums = [(interval.transactions, interval.latency_sum_us, interval.latency_sum2_us2) for interval in intervals]
    count, total, squares = (sum(column) for column in zip(*sums, strict=True)) if sums else (0, 0, 0)
    if not count:
        return None, None
    mean = total / count
    return mean, float(max(0.0, squares / count - mean**2) ** 0.5)


_NAMES = tuple(field.name for field in fields(Interval))[:15]


def parse_aggregate(raw: bytes) -> AggregateLog:
    """Parse the log of one thread. Raises FormatError with the first line that cannot be read."""
    intervals: list[Interval] = []
    columns = 0
    for number, line in enumerate(each_line(finished(raw), WHERE), 1):
        if not line.strip():
            continue
        where, columns = f"{WHERE}, line {number}", columns or len(line.split(" "))
        intervals.append(_interval(line, columns, where))
        if len(intervals) > 1 and intervals[-1].start_s <= intervals[-2].start_s:
            hint = "give the log of each thread as a separate file"
            raise FormatError(where, f"{intervals[-1].start_s} follows {intervals[-2].start_s}", hint=hint)
    if not intervals:
        raise FormatError(
            WHERE, "the log contains no interval", hint="give the output of pgbench -l --aggregate-interval"
        )
    return AggregateLog(columns, tuple(intervals), cut=is_unfinished(raw))


def _interval(line: str, columns: int, where: str) -> Interval:
    fields = line.split(" ")
    if not _LINE.fullmatch(line) or len(fields) != columns or columns not in COLUMNS:
        hint = f"expected {columns if columns in COLUMNS else '6, 10, 11 or 15'} whole numbers, the first an epoch"
        raise FormatError(where, f"cannot read {shown(line)}", hint=hint)
    return Interval(**dict(zip(_NAMES, map(int, fields), strict=False)))


def merge(logs: Iterable[AggregateLog]) -> AggregateLog:
    """Merge the logs of a run's threads: intervals with the same start are summed up. Raises FormatError if their
    options differ."""
    all_logs = list(logs)
    if len({log.columns for log in all_logs}) != 1:
        raise FormatError(WHERE, "the logs have different columns", hint="give the logs of one run's threads")
    merged: dict[int, Interval] = {}
    for interval in (one for log in all_logs for one in log.intervals):
        known = merged.get(interval.start_s)
        merged[interval.start_s] = _sum(known, interval) if known else interval
    intervals = tuple(merged[start] for start in sorted(merged))
    return AggregateLog(
        all_logs[0].columns, intervals, sum(log.logs for log in all_logs), any(log.cut for log in all_logs)
    )


def _sum(one: Interval, other: Interval) -> Interval:
    # An interval without transactions has zeros instead of extremes.
    if not one.transactions or not other.transactions:
        extremes = one if one.transactions else other
        picked: dict[str, Any] = {name: getattr(extremes, name) for name in _EXTREMES}
    else:
        picked = {name: _extreme(name, one, other) for name in _EXTREMES}
    added: dict[str, Any] = {name: _added(getattr(one, name), getattr(other, name)) for name in _ADDED}
    return replace(one, **picked, **added)


_EXTREMES = ("latency_min_us", "latency_max_us", "lag_min_us", "lag_max_us")
_ADDED = tuple(field.name for field in fields(Interval) if field.name not in ("start_s", *_EXTREMES))


def _extreme(name: str, one: Interval, other: Interval) -> int | None:
    values = [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
    return (min if "_min_" in name else max)(values, default=None)


def _added(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
