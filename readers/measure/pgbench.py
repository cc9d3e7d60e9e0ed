"""Measurements of pgbench: rates, latencies, failures, and statement latencies, from `stdout`, `stderr` and
`latency.json`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import PurePosixPath

from agents.wire.histogram import Histogram
from readers.latency import Latencies, LatencyReport, parse_latency, parse_load
from readers.measure.figures import Measurement, Options, Outputs, distinct, incomplete
from readers.percentiles import fewest
from readers.pgbench.stderr import Stderr, parse_stderr
from readers.pgbench.summary import Script, Summary, parse_summary

# The meaning of a latency depends on what starts a transaction, so each definition states it.
LOOPS = {
    "closed": "closed loop: without the wait before a transaction (coordinated omission)",
    "open": "open loop: includes schedule lag",
}
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


def measure_pgbench(outputs: Outputs, options: Options) -> list[Measurement]:
    """Return the measurements. Raises WorkloadError if pgbench aborted, and FormatError."""
    stderr = parse_stderr(outputs.get("stderr", b""))
    _check_pgbench_ended(stderr)
    summary = parse_summary(outputs.get("stdout", b""))
    if summary.short_by:
        raise incomplete("pgbench", f"{summary.short_by} transactions did not run", stderr.other_lines)
    if summary.missing:
        raise incomplete("pgbench", f"its report lacks {summary.missing[0]}", stderr.other_lines)
    loop = "closed" if summary.lag_avg_ms is None else "open"
    measurements = [*_rates(summary), *_transactions(summary), *_latencies(summary, loop), *_scripts(summary)]
    if "latency.json" in outputs:
        measurements += _percentiles(parse_latency(outputs["latency.json"]))
    if "load.json" in outputs:
        measurements += _requested_rate(parse_load(outputs["load.json"]).rate, options)
    return distinct(measurements)


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


def _latencies(summary: Summary, loop: str) -> Iterator[Measurement]:
    definitions = {"latency_avg": LOOPS[loop], "latency_stddev": LOOPS[loop]}
    if summary.latency_avg_includes_failures:
        definitions["latency_avg"] = f"including failures; {loop} loop"
    for name in ("latency_avg", "latency_stddev", "lag_avg", "lag_max", "initial_connection", "avg_connection"):
        value = getattr(summary, f"{name}_ms")
        if value is not None:
            yield Measurement(name, value, "ms", "lower", definitions.get(name, ""))


def _scripts(summary: Summary) -> Iterator[Measurement]:
    many = len(summary.scripts) > 1
    for number, script in enumerate(summary.scripts, 1):
        yield from _script(script, f"script:{number} " if many else "")


def _script(script: Script, prefix: str) -> Iterator[Measurement]:
    if prefix and script.tps is not None:
        yield Measurement(f"{prefix}tps", script.tps, "tps", "higher", _name(script))
    if prefix and script.latency_avg_ms is not None:
        yield Measurement(f"{prefix}latency_avg", script.latency_avg_ms, "ms", "lower", _name(script))
    for number, statement in enumerate(script.statements, 1):
        yield Measurement(f"{prefix}statement:{number} latency", statement.latency_ms, "ms", "lower", statement.sql)


def _name(script: Script) -> str:
    """Return the name of the script without its directory, which belongs to the run."""
    return PurePosixPath(script.name or "").name


def _percentiles(report: LatencyReport) -> Iterator[Measurement]:
    sample = "" if report.sampling_rate == 1 else f"{report.loop} loop; of a sample, {report.sampling_rate:.2%}"
    yield from _of(report.all.histogram, "latency", "", sample or LOOPS[report.loop], skipped=_skipped(report.all))
    if report.lag is not None:
        yield from _of(report.lag, "lag", "", "", percentiles=(99.0,))
    for number, script in enumerate(report.scripts, 1) if len(report.scripts) > 1 else ():
        yield from _of(script.histogram, "latency", f"script:{number} ", script.name, skipped=_skipped(script))


def _skipped(latencies: Latencies) -> int:
    return latencies.word_counts.get("skipped", 0)


def _requested_rate(rate: float | None, options: Options) -> Iterator[Measurement]:
    """Yield the rate that was computed from a share of an earlier step. Compare it with tps to see whether it was
    reached."""
    if rate is not None:
        share, step = options.get("rate_share", 0), options.get("rate_of", "")
        yield Measurement("rate", rate, "tps", "", f"requested: {share:.4g} of the rate of step {step}")


def _of(
    histogram: Histogram,
    what: str,
    prefix: str,
    definition: str,
    *,
    percentiles: tuple[float, ...] = PERCENTILES,
    skipped: int = 0,
) -> Iterator[Measurement]:
    """Yield mean, percentiles and maximum. Percentiles are left out if they need more transactions, or lie beyond
    the latency limit because of skipped transactions."""
    if not histogram.count:
        return
    for percent in percentiles:
        value = histogram.percentile(percent, beyond=skipped) / 1000
        if histogram.count + skipped >= fewest(percent) and math.isfinite(value):
            yield Measurement(f"{prefix}{what}_p{percent:g}", value, "ms", "lower", definition)
    if what == "latency":
        yield Measurement(f"{prefix}latency_max", histogram.percentile(100) / 1000, "ms", "lower", definition)
