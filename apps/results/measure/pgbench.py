"""pgbench's `stdout` and `stderr`: rates, latencies, failures, and the latency of each statement."""

from __future__ import annotations

from collections.abc import Iterator

from apps.results.formats.pgbench import Script, Summary, parse_summary
from apps.results.formats.pgbench_stderr import Stderr, parse_stderr
from apps.results.measure.figures import Measurement, Options, Outputs, distinct, incomplete


def measure_pgbench(outputs: Outputs, options: Options) -> list[Measurement]:
    stderr = parse_stderr(outputs.get("stderr", b""))
    _check_pgbench_ended(stderr)
    summary = parse_summary(outputs.get("stdout", b""))
    if summary.short_by:
        raise incomplete("pgbench", f"{summary.short_by} transactions were never run", stderr.other_lines)
    found = [*_rates(summary), *_transactions(summary), *_latencies(summary), *_statements(summary)]
    return distinct(found)


def _check_pgbench_ended(stderr: Stderr) -> None:
    if stderr.run_aborted or stderr.aborted_clients:
        raise incomplete("pgbench", "clients were aborted", stderr.other_lines)


def _rates(summary: Summary) -> Iterator[Measurement]:
    yield Measurement("tps", summary.tps, "tps", "higher", summary.tps_definition)
    if summary.tps_including is not None:
        yield Measurement("tps_including", summary.tps_including, "tps", "higher", "including connections establishing")


def _transactions(summary: Summary) -> Iterator[Measurement]:
    yield Measurement("transactions", summary.transactions, "transactions", "")
    for name in ("failed", "serialization_failures", "deadlock_failures", "retried", "retries", "skipped", "late"):
        value = getattr(summary, name)
        if value is not None:
            yield Measurement(name, value, "transactions" if name != "retries" else "retries", "lower")


def _latencies(summary: Summary) -> Iterator[Measurement]:
    includes = "including failures" if summary.latency_avg_includes_failures else ""
    for name in ("latency_avg", "latency_stddev", "lag_avg", "lag_max", "initial_connection", "avg_connection"):
        value = getattr(summary, f"{name}_ms")
        if value is not None:
            yield Measurement(name, value, "ms", "lower", includes if name == "latency_avg" else "")


def _statements(summary: Summary) -> Iterator[Measurement]:
    many = len(summary.scripts) > 1
    for number, script in enumerate(summary.scripts, 1):
        yield from _script(script, f"script:{number} " if many else "")


def _script(script: Script, prefix: str) -> Iterator[Measurement]:
    if prefix and script.tps is not None:
        yield Measurement(f"{prefix}tps", script.tps, "tps", "higher", script.name or "")
    if prefix and script.latency_avg_ms is not None:
        yield Measurement(f"{prefix}latency_avg", script.latency_avg_ms, "ms", "lower", script.name or "")
    for number, statement in enumerate(script.statements, 1):
        yield Measurement(f"{prefix}statement:{number} latency", statement.latency_ms, "ms", "lower", statement.sql)
