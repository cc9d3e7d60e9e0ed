"""From the raw outputs of one step to its measurements. Pure: a better parser can re-read old runs.

Outputs are keyed by the agent's names for a step's files: pgbench's `stdout` and `stderr`, fio's `fio.json` and
`stderr`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from apps.errors import WorkloadError
from apps.results.formats.fio import Direction, Job, parse_fio, parse_fio_stderr
from apps.results.formats.pgbench import Script, Summary, parse_summary
from apps.results.formats.pgbench_stderr import Stderr, parse_stderr

Outputs = Mapping[str, bytes]
LONGEST_NAME, LONGEST_DEFINITION = 120, 80


@dataclass(frozen=True)
class Measurement:
    """One figure of a step. `better` is empty where neither direction is; `definition` tells which of several it is."""

    name: str
    value: float
    unit: str
    better: Literal["higher", "lower", ""]
    definition: str = ""


def measure(kind: str, outputs: Outputs, *, exit_status: int = 0) -> list[Measurement]:
    """The measurements of one step of a workload of this kind ("pgbench" or "fio").

    Raises WorkloadError when the tool failed, was aborted or killed, and FormatError when its output cannot be read:
    figures of an incomplete run are not measurements.
    """
    if kind not in _MEASURE:
        raise WorkloadError(kind, "its results cannot be read", hint=f"known are {', '.join(_MEASURE)}")
    return _MEASURE[kind](outputs, exit_status)


def _pgbench(outputs: Outputs, exit_status: int) -> list[Measurement]:
    stderr = parse_stderr(outputs.get("stderr", b""))
    _check_pgbench_ended(stderr, exit_status)
    summary = parse_summary(outputs.get("stdout", b""))
    if summary.short_by:
        raise _incomplete("pgbench", f"{summary.short_by} transactions were never run", stderr.other_lines)
    found = [*_rates(summary), *_transactions(summary), *_latencies(summary), *_statements(summary)]
    return _distinct(found)


def _check_pgbench_ended(stderr: Stderr, exit_status: int) -> None:
    if stderr.run_aborted or stderr.aborted_clients:
        raise _incomplete("pgbench", "clients were aborted", stderr.other_lines)
    _check_status("pgbench", exit_status, stderr.other_lines)


def _check_status(tool: str, exit_status: int, said: tuple[str, ...]) -> None:
    if exit_status < 0:
        raise _incomplete(tool, f"it was killed by signal {-exit_status}", said)
    if exit_status:
        raise _incomplete(tool, f"it ended with status {exit_status}", said)


def _incomplete(tool: str, why: str, said: tuple[str, ...]) -> WorkloadError:
    errors = [line for line in said if "error" in line.lower() or "fatal" in line.lower()] or list(said[-1:])
    told = f": {errors[0]}" if errors else ""
    return WorkloadError(
        tool, f"the run is incomplete, {why}{told}", hint="its figures are kept with the raw output only"
    )


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


def _fio(outputs: Outputs, exit_status: int) -> list[Measurement]:
    said = parse_fio_stderr(outputs.get("stderr", b""))
    _check_status("fio", exit_status, said)
    report = parse_fio(outputs.get("fio.json", b""))
    failed = [job for job in report.jobs if job.error]
    if failed:
        raise _incomplete("fio", f"job {failed[0].name} ended with error {failed[0].error}", said or report.other_lines)
    found = [one for prefix, job in _named(report.jobs) for one in _job(prefix, job)]
    if not found:
        raise _incomplete("fio", "no job did any I/O", said or report.other_lines)
    return _distinct(found)


def _named(jobs: tuple[Job, ...]) -> Iterator[tuple[str, Job]]:
    """Jobs with the prefix of their measurements: none for a lone job, a number where a name is used twice."""
    seen: dict[str, int] = {}
    for job in jobs:
        seen[job.name] = seen.get(job.name, 0) + 1
        repeat = f"#{seen[job.name]}" if seen[job.name] > 1 else ""
        yield "" if len(jobs) == 1 else f"{job.name}{repeat} ", job


def _job(prefix: str, job: Job) -> Iterator[Measurement]:
    if job.directions:
        total = sum(direction.iops for direction in job.directions.values())
        yield Measurement(f"{prefix}iops", total, "IOPS", "higher", " + ".join(job.directions))
    for name, direction in job.directions.items():
        yield from _direction(f"{prefix}{name} ", direction)
    if job.sync is not None:
        yield Measurement(f"{prefix}sync lat_mean", job.sync.mean_ns, "ns", "lower")


def _direction(prefix: str, direction: Direction) -> Iterator[Measurement]:
    yield Measurement(f"{prefix}iops", direction.iops, "IOPS", "higher")
    yield Measurement(f"{prefix}bw", direction.bw_kib_s, "KiB/s", "higher")
    for name in ("slat", "clat", "lat"):
        latency = getattr(direction, name)
        if latency is not None:
            yield Measurement(f"{prefix}{name}_mean", latency.mean_ns, "ns", "lower")
    for percentage, nanoseconds in direction.clat.percentiles_ns if direction.clat else ():
        if percentage in (50.0, 95.0, 99.0, 99.9):
            yield Measurement(f"{prefix}clat_p{percentage:g}", nanoseconds, "ns", "lower")


def _distinct(found: list[Measurement]) -> list[Measurement]:
    """Names and definitions fit their columns; statements and jobs are the users' and may be long."""
    fitted = [
        Measurement(
            _cut(one.name, LONGEST_NAME), one.value, one.unit, one.better, _cut(one.definition, LONGEST_DEFINITION)
        )
        for one in found
    ]
    names = [one.name for one in fitted]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise WorkloadError(repeated, "two measurements of one step bear this name", hint="give the jobs shorter names")
    return fitted


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


_MEASURE: dict[str, Callable[[Outputs, int], list[Measurement]]] = {"pgbench": _pgbench, "fio": _fio}
