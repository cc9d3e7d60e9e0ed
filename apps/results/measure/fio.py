"""fio's `fio.json` and `stderr`: throughput and latencies of each job and direction."""

from __future__ import annotations

from collections.abc import Iterator

from apps.results.formats.fio import Direction, Job, parse_fio, parse_fio_stderr
from apps.results.measure.figures import Measurement, Options, Outputs, distinct, incomplete


def measure_fio(outputs: Outputs, options: Options) -> list[Measurement]:
    said = parse_fio_stderr(outputs.get("stderr", b""))
    report = parse_fio(outputs.get("fio.json", b""))
    failed = [job for job in report.jobs if job.error]
    if failed:
        raise incomplete("fio", f"job {failed[0].name} ended with error {failed[0].error}", said or report.other_lines)
    found = [one for prefix, job in _named(report.jobs) for one in _job(prefix, job)]
    if not found:
        raise incomplete("fio", "no job did any I/O", said or report.other_lines)
    return distinct(found)


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
