"""Measurements of fio: throughput and latency of each section and direction.

Clones of a section (numjobs without group_reporting) are combined: rates are added, means are weighted by their
counts, and percentiles come from the sum of the histograms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from readers.fio.report import DIRECTIONS, Bucket, Direction, Job, Latency, Report, parse_fio, parse_fio_stderr
from readers.fio.terse import TerseReport, parse_fio_terse
from readers.fio.text import TextReport, parse_fio_text
from readers.histogram import Histogram
from readers.measure.figures import Measurement, Options, Outputs, distinct, incomplete
from readers.percentiles import fewest

PERCENTILES = (50.0, 95.0, 99.0, 99.9)
LATENCIES = ("slat", "clat", "lat")
Clones = Sequence[Job]


def measure_fio(outputs: Outputs, options: Options) -> list[Measurement]:
    """Read `fio.json`, or `fio.txt` or `fio.terse` of imported runs. The agent's own runs print JSON, which is
    exact."""
    stderr_lines = parse_fio_stderr(outputs.get("stderr", b""))
    report = _report(outputs)
    if isinstance(report, TerseReport) and report.cut:
        raise incomplete("fio", "its last line is cut", stderr_lines)
    if isinstance(report, TextReport) and report.missing:
        raise incomplete("fio", f"its text ends before {report.missing[0]}", stderr_lines or report.other_lines)
    stderr_lines = stderr_lines or getattr(report, "other_lines", ())
    failed = [job for job in report.jobs if job.error]
    if failed:
        raise incomplete("fio", f"job {failed[0].name} ended with error {failed[0].error}", stderr_lines)
    measurements = [measurement for prefix, clones in _named(report.jobs) for measurement in _section(prefix, clones)]
    if not measurements:
        raise incomplete("fio", "no job did any I/O", stderr_lines)
    return distinct(measurements)


def _report(outputs: Outputs) -> Report | TextReport | TerseReport:
    if "fio.txt" in outputs:
        return parse_fio_text(outputs["fio.txt"])
    return parse_fio_terse(outputs["fio.terse"]) if "fio.terse" in outputs else parse_fio(outputs.get("fio.json", b""))


def _named(jobs: tuple[Job, ...]) -> Iterator[tuple[str, Clones]]:
    """Yield the sections, each with the prefix of its measurements: empty for a single one, with a number if a name
    repeats."""
    sections: dict[tuple[int, str], list[Job]] = {}
    for job in jobs:
        sections.setdefault((job.groupid, job.name), []).append(job)
    uses: Counter[str] = Counter()
    for (_, name), clones in sections.items():
        uses[name] += 1
        repeat = f"#{uses[name]}" if uses[name] > 1 else ""
        yield "" if len(sections) == 1 else f"{name}{repeat} ", clones


def _section(prefix: str, clones: Clones) -> Iterator[Measurement]:
    directions = {name: per_job for name in DIRECTIONS if (per_job := _of(clones, name))}
    directions = directions or {name: per_job for name in ("mixed",) if (per_job := _of(clones, name))}
    if directions:
        total = sum(direction.iops for per_job in directions.values() for direction in per_job)
        yield Measurement(f"{prefix}iops", total, "IOPS", "higher", " + ".join(directions))
        took = max(direction.runtime_ms for per_job in directions.values() for direction in per_job)
        yield Measurement(f"{prefix}runtime", took / 1000, "s", "")
    for name, per_job in directions.items():
        yield from _direction(f"{prefix}{name} ", per_job)
    synced = [job.sync for job in clones if job.sync]
    if synced:
        yield Measurement(f"{prefix}sync lat_mean", _mean(synced), "ns", "lower")


def _of(clones: Clones, name: str) -> list[Direction]:
    return [one for job in clones if (one := getattr(job, name))]


def _direction(prefix: str, per_job: list[Direction]) -> Iterator[Measurement]:
    yield Measurement(f"{prefix}iops", sum(direction.iops for direction in per_job), "IOPS", "higher")
    yield Measurement(f"{prefix}bw", sum(direction.bw_kib_s for direction in per_job), "KiB/s", "higher")
    for name in LATENCIES:
        latencies = [one for direction in per_job if (one := getattr(direction, name))]
        if latencies:
            yield Measurement(f"{prefix}{name}_mean", _mean(latencies, per_job), "ns", "lower")
    for name in ("clat", "lat"):
        latencies = [one for direction in per_job if (one := getattr(direction, name))]
        for percentage, nanoseconds in _percentiles(latencies):
            yield Measurement(f"{prefix}{name}_p{percentage:g}", nanoseconds, "ns", "lower")


@dataclass(frozen=True)
class Distribution:
    """Completion latencies of one direction of a section, clones combined. `histogram` needs JSON+.
    `percentiles_ns`: those that fio printed; clones have none without histograms."""

    section: str
    way: str
    count: int
    histogram: Histogram | None
    percentiles_ns: dict[float, int]

    @property
    def title(self) -> str:
        return f"{self.section} {self.way}".strip()


@dataclass(frozen=True)
class Latencies:
    """The completion latencies of one section. `buckets`: all directions together, with lower resolution: for each
    clone its number of I/Os and its buckets."""

    section: str
    ways: list[Distribution]
    buckets: list[tuple[int, tuple[Bucket, ...]]]


def latencies(raw: bytes) -> list[Latencies]:
    """Return the latencies of each section that did I/O, in the order of the report. Raises FormatError."""
    sections = []
    for prefix, clones in _named(parse_fio(raw).jobs):
        section = prefix.strip()
        distributions = [
            _distribution(section, name, of) for name in (*DIRECTIONS, "mixed") if (of := _of(clones, name))
        ]
        ways = [distribution for distribution in distributions if distribution.count]
        counted = [
            (sum(direction.total_ios or 0 for direction in job.directions.values()), job.buckets) for job in clones
        ]
        if ways:
            sections.append(Latencies(section, ways, [(ios, buckets) for ios, buckets in counted if ios and buckets]))
    return sections


def _distribution(section: str, way: str, per_job: list[Direction]) -> Distribution:
    latencies = [latency for direction in per_job if (latency := direction.main_latency)]
    histograms = [latency.histogram for latency in latencies if latency.histogram]
    if histograms and len(histograms) == len(latencies):
        together = Histogram.merged(histograms)
        return Distribution(section, way, together.count, together, {})
    printed = dict(latencies[0].percentiles_ns) if len(latencies) == 1 else {}
    return Distribution(
        section, way, sum(direction.total_ios or 0 for direction in per_job) if latencies else 0, None, printed
    )


def _mean(latencies: Sequence[Latency], directions: Sequence[Direction] = ()) -> float:
    """Return the mean, weighted by counts. fio before 3.0 does not print the count; then the I/Os of the direction
    are used."""
    if len(latencies) == 1:
        return latencies[0].mean_ns
    counted = (
        [direction.total_ios for direction in directions] if len(directions) == len(latencies) else [1] * len(latencies)
    )
    weights = [one.samples or count or 1 for one, count in zip(latencies, counted, strict=True)]
    return sum(one.mean_ns * weight for one, weight in zip(latencies, weights, strict=True)) / sum(weights)


def _percentiles(latencies: Sequence[Latency]) -> Iterator[tuple[float, int]]:
    """Return fio's own percentiles of a single job, or those of the summed histograms of clones (JSON+). Percentiles
    that need more I/Os than there are, are left out."""
    if len(latencies) == 1:
        counted = latencies[0].samples
        own = [(at, ns) for at, ns in latencies[0].percentiles_ns if at in PERCENTILES]
        yield from ((at, ns) for at, ns in own if counted is None or counted >= fewest(at))
        return
    histograms = [latency.histogram for latency in latencies if latency.histogram]
    if latencies and len(histograms) == len(latencies):
        together = Histogram.merged(histograms)
        yield from ((at, together.percentile(at)) for at in PERCENTILES if together.count >= fewest(at))
