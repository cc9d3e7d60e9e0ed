"""Measurements of pg_test_fsync and pg_test_timing, from their `stdout`."""

from __future__ import annotations

from collections.abc import Iterator

from readers.measure.figures import Measurement, Options, Outputs, distinct, incomplete
from readers.postgres.pg_test_fsync import Rate, parse_pg_test_fsync
from readers.postgres.pg_test_timing import Clock, parse_pg_test_timing

# Up to PostgreSQL 18 the first bucket is "below 1 us"; 19 has powers of two in nanoseconds.
MICROSECOND_NS = 1024


def measure_pg_test_fsync(outputs: Outputs, options: Options) -> list[Measurement]:
    """Return operations per second and microseconds per operation of every method that was available."""
    report = parse_pg_test_fsync(outputs.get("stdout", b""))
    if report.missing:
        raise incomplete("pg_test_fsync", f"its report ends before {report.missing[0]}", ())
    return distinct([one for rate in report.rates for one in _rate(rate)])


def _rate(rate: Rate) -> Iterator[Measurement]:
    if rate.ops_per_s is not None:
        yield Measurement(f"{rate.table} {rate.method} ops", rate.ops_per_s, "ops/s", "higher")
    if rate.us_per_op is not None:
        yield Measurement(f"{rate.table} {rate.method} us", float(rate.us_per_op), "us", "lower")


def measure_pg_test_timing(outputs: Outputs, options: Options) -> list[Measurement]:
    """Return the cost of reading the system's clock: per reading, the share below a microsecond, and the maximum."""
    report = parse_pg_test_timing(outputs.get("stdout", b""))
    if report.missing:
        raise incomplete("pg_test_timing", f"its report lacks {report.missing[0]}", ())
    return list(_clock(report.clocks[0]))


def _clock(clock: Clock) -> Iterator[Measurement]:
    source = clock.source or ""
    yield Measurement("per_loop", clock.per_loop_ns, "ns", "lower", source)
    counted = [bucket for bucket in clock.histogram if bucket.count]
    total = sum(bucket.count for bucket in counted)
    if total:
        short = sum(bucket.count for bucket in counted if bucket.below_ns <= MICROSECOND_NS)
        yield Measurement("below_1us", 100 * short / total, "%", "higher", source)
        yield Measurement("longest", float(counted[-1].below_ns), "ns", "lower", "end of its bucket")
