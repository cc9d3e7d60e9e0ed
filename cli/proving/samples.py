"""Figures of several runs, from outputs or CSV, and the comparison of two groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from common.errors import FormatError, PlanError, WorkloadError
from proving.errors import CliError, UsageError
from readers.guess import guess
from readers.measure import Measurement, measure
from readers.table import named, number, read_table
from stats import Metric, Observation, compare, level_table

# kind of output -> kind of workload, and the name of its file in a run
WORKLOADS = {
    "pgbench": ("pgbench", "stdout"),
    "fio": ("fio", "fio.json"),
    "fio-text": ("fio", "fio.txt"),
    "fio-terse": ("fio", "fio.terse"),
    "sysbench": ("sysbench", "stdout"),
    "sysbench-system": ("sysbench", "stdout"),
    "pg_test_fsync": ("pg_test_fsync", "stdout"),
    "pg_test_timing": ("pg_test_timing", "stdout"),
}
# The figures that are compared without --all: rates, and mean and tail latencies.
MAIN = ("tps", "iops", "latency_avg", "latency_p95", "latency_p99", "clat_mean", "clat_p99", "per_loop", "ops")
MAIN_OF_SYSTEM = ("events_per_s", "throughput")
FAILURES = ("failed", "skipped", "ignored_errors")
LOWER_UNITS = ("ns", "us", "µs", "ms", "s", "min")
HIGHER_UNITS = ("tps", "qps", "iops", "tpmc", "ops/s", "1/s", "kib/s", "mib/s", "gib/s", "kb/s", "mb/s", "gb/s")


@dataclass
class Sample:
    """One figure of the runs of one side. `better` is "" if the direction is unknown."""

    unit: str
    better: str
    definitions: set[str] = field(default_factory=set)
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class MeanOfSide:
    """Geometric mean with its 95 % interval; fewer than 3 runs have none."""

    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class FigureComparison:
    """The comparison of a figure. `relative_percent`: change from old to new, with its 95 % interval."""

    figure: str
    unit: str
    better: str
    old: MeanOfSide
    new: MeanOfSide
    relative_percent: float
    relative_low: float | None
    relative_high: float | None
    verdict: str
    preliminary: bool
    method: str
    sentence: str


Samples = dict[str, Sample]


def collect(files: Sequence[tuple[str, bytes]], directions: Mapping[str, str]) -> Samples:
    """Figures of one side by name. Raises CliError, with the file in its message, for one that cannot be read."""
    samples: Samples = {}
    for name, raw in files:
        try:
            for measurement in _measurements(name, raw, directions):
                sample = samples.setdefault(measurement.name, Sample(measurement.unit, measurement.better))
                sample.values.append(measurement.value)
                sample.definitions.add(measurement.definition)
        except WorkloadError as error:
            message = f"{name}: {error.subject}: {error.message}"
            raise CliError(message, field="FILE", value=name, accepted=error.hint) from error
    return samples


def _measurements(name: str, raw: bytes, directions: Mapping[str, str]) -> Iterator[Measurement]:
    if name.lower().endswith((".csv", ".tsv")):
        yield from _cells(name, raw, directions)
        return
    kind = guess(raw)
    if kind not in WORKLOADS:
        raise FormatError(kind, "its figures cannot be compared", hint=f"accepted are {', '.join(WORKLOADS)}, and CSV")
    workload, output = WORKLOADS[kind]
    yield from measure(workload, {output: raw})


def _cells(name: str, raw: bytes, directions: Mapping[str, str]) -> Iterator[Measurement]:
    """Yield each cell that is a number. An incomplete row is refused, because its last figure may have lost digits."""
    table = read_table(raw, name)
    for row in table.rows:
        if not table.whole(row):
            raise FormatError(f"{name}, line {row.line}", "the row is cut", hint="give whole rows")
        for header, cell in zip(table.head, row.cells, strict=True):
            value = number(cell, table.delimiter == ";")
            if value is not None:
                figure, unit = named(header)
                yield Measurement(figure, value, unit, _better(figure, unit, directions))  # type: ignore[arg-type]


def _better(figure: str, unit: str, directions: Mapping[str, str]) -> str:
    word = (unit or figure).lower()
    if figure in directions:
        return directions[figure]
    if word in LOWER_UNITS or "latency" in figure.lower():
        return "lower"
    return "higher" if word in HIGHER_UNITS else ""


def comparable(old: Samples, new: Samples, figures: Sequence[str], every: bool) -> tuple[list[str], list[str]]:
    """Return the names of figures to compare, and the others with reasons. UsageError for an unknown name."""
    both = [name for name in old if name in new]
    unknown = [name for name in figures if name not in both]
    if unknown:
        raise UsageError(
            "no figure of this name on both sides",
            field="--figure",
            value=unknown[0],
            accepted=", ".join(both) or "none",
        )
    directed = [name for name in both if old[name].better]
    main = [name for name in directed if name.rpartition(" ")[2] in (*MAIN, *MAIN_OF_SYSTEM)]
    picked = list(figures) or (directed if every or not main else main)
    alone = [name for name in [*old, *new] if (name in old) != (name in new) and (every or name in MAIN)]
    skipped = [f"{name}: only one side has it" for name in alone]
    if every or not main:
        skipped += [f"{name}: unknown whether higher or lower is better" for name in both if not old[name].better]
    return picked, skipped


def failures(old: Samples, new: Samples) -> list[str]:
    """Return a sentence for each count of failures above 0, because rates do not include them."""
    sentences = []
    for name in FAILURES:
        counts = [sum(side[name].values) if name in side else 0.0 for side in (old, new)]
        if any(counts):
            sentences.append(
                f"{name.replace('_', ' ')}: {counts[0]:,.0f} in the old runs, {counts[1]:,.0f} in the new runs"
            )
    return sentences


def judge(name: str, old: Sample, new: Sample, delta: float, tests: int) -> FigureComparison | str:
    """Return the comparison, or why there is none. `tests`: number of compared figures, whose intervals hold
    simultaneously."""
    definitions = old.definitions | new.definitions
    if len(definitions) > 1 or old.unit != new.unit:
        return f"not the same figure in all runs: {' / '.join(sorted(definitions)) or f'{old.unit}, {new.unit}'}"
    try:
        metric = Metric(name, old.unit, old.better)  # type: ignore[arg-type]
        comparison = compare(
            old.values, new.values, metric=metric, delta=delta, blocked=False, names=("old", "new"), of=tests
        )
        sides = [_side(sample.values) for sample in (old, new)]
    except PlanError as error:
        return error.message
    low, high = comparison.interval or (None, None)
    return FigureComparison(
        figure=name,
        unit=old.unit,
        better=old.better,
        old=sides[0],
        new=sides[1],
        relative_percent=comparison.ratio_percent,
        relative_low=low,
        relative_high=high,
        verdict=comparison.verdict,
        preliminary=comparison.preliminary,
        method=comparison.method,
        sentence=comparison.sentence(),
    )


def _side(values: Sequence[float]) -> MeanOfSide:
    rows = [Observation("runs", place, value, place) for place, value in enumerate(values)]
    (level,) = level_table(rows).levels
    low, high = level.interval or (None, None)
    return MeanOfSide(level.n, level.mean, low, high)
