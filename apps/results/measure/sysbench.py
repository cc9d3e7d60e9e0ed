"""sysbench's `stdout`: rates, latencies and ignored errors of an SQL test."""

from __future__ import annotations

from collections.abc import Iterator

from apps.results.formats.sysbench import Run, parse_sysbench
from apps.results.measure.figures import Measurement, Options, Outputs, distinct


def measure_sysbench(outputs: Outputs, options: Options) -> list[Measurement]:
    """What its report lacks at most, the fairness of threads, is no figure of ours."""
    return distinct(list(_figures(parse_sysbench(outputs.get("stdout", b"")))))


def _figures(report: Run) -> Iterator[Measurement]:
    yield Measurement("tps", report.tps, "tps", "higher", report.tps_definition)
    yield Measurement("qps", report.qps, "qps", "higher")
    yield Measurement("latency_avg", report.latency_avg_ms, "ms", "lower")
    yield Measurement("latency_max", report.latency_max_ms, "ms", "lower")
    for percentage, milliseconds in report.percentiles_ms:
        yield Measurement(f"latency_p{percentage:g}", milliseconds, "ms", "lower")
    yield Measurement("transactions", report.transactions, "transactions", "")
    yield Measurement("ignored_errors", report.ignored_errors, "errors", "lower")
    yield Measurement("reconnects", report.reconnects, "reconnects", "lower")
