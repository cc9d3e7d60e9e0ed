"""Types of the statistics: metrics, observations, comparisons and verdicts.

A run is the unit everywhere: an Observation is one figure of one run, never a second of it. Ratios are in percent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from common.errors import PlanError
from common.verdicts import ComparisonVerdict
from common.wording import p_value, percent, signed

Better = Literal["higher", "lower"]
Interval = tuple[float, float]
Floats = NDArray[np.float64]

POINTS_ONLY_BELOW = 3
PRELIMINARY_BELOW = 5
ABBREVIATIONS = re.compile(r"\b(?:cpu|ipc|wal|dtlb|llc)\b")
# Below this a standard deviation of logs is rounding of the arithmetic, not spread of the runs.
NO_SPREAD = 1e-12


@dataclass(frozen=True)
class Metric:
    """What is measured, its unit, and which direction is the good one."""

    name: str
    unit: str
    better: Better

    @property
    def label(self) -> str:
        return ABBREVIATIONS.sub(lambda match: match[0].upper(), self.name.replace("_", " "))

    def __post_init__(self) -> None:
        if self.better not in ("higher", "lower"):
            raise PlanError(
                "metric",
                f"neither direction of {self.name} is better",
                hint="choose a metric for which higher or lower is better",
            )


@dataclass(frozen=True)
class Observation:
    """One run: its level, its block (repetition), the figure it yielded, and its place in the order of running.

    A run that was `retried` ran later than its block, so that it needs a block of its own. `unit`: "host" where the
    figure is the mean of a host, which is then the block."""

    level: str
    block: int
    value: float
    order: int
    retried: bool = False
    unit: str = "run"


@dataclass(frozen=True)
class Level:
    """`mean` is geometric; the 95 % interval is None where the runs are too few for one."""

    level: str
    n: int
    mean: float
    interval: Interval | None


@dataclass(frozen=True)
class LevelTable:
    """`s` is the standard deviation of log values within levels (and blocks, where `blocked`)."""

    levels: tuple[Level, ...]
    blocked: bool
    s: float | None
    df: int
    p: float | None
    method: str


@dataclass(frozen=True)
class Comparison:
    """B against A, in percent of A. `delta` is the margin that was fixed beforehand, as a fraction.

    `mde_percent`: the minimum detectable effect of these runs (80 % power);
    `runs_needed`: runs of each to detect one of `delta`. Both, like the intervals, are None below 3 runs.
    `caveat`: what the verdict does not include. `note`: why a sufficient number of runs does not allow a comparison;
    it is then points_only. `unit`: what one value of an arm belongs to: a run or a host.
    `se` and `df`: the standard error of the difference of logs, and its degrees of freedom.
    The rank test is a cross-check of two arms of up to 50 runs, without blocks or other levels.
    `by_ranks`: the ratio is a Hodges-Lehmann shift, because the runs have heavy tails or two modes.
    `is_live`: its campaign is still running, so it is preliminary with any number of runs.
    """

    a: str
    b: str
    metric: Metric
    delta: float
    n_a: int
    n_b: int
    mean_a: float
    mean_b: float
    ratio_percent: float
    verdict: ComparisonVerdict
    method: str
    interval: Interval | None = None
    interval_90: Interval | None = None
    p: float | None = None
    equivalence_p: float | None = None
    s: float | None = None
    mde_percent: float | None = None
    runs_needed: int | None = None
    mann_whitney_p: float | None = None
    hodges_lehmann_percent: float | None = None
    unit: str = "run"
    note: str = ""
    caveat: str = ""
    se: float | None = None
    df: float | None = None
    by_ranks: bool = False
    is_live: bool = False

    @property
    def n(self) -> int:
        return min(self.n_a, self.n_b)

    @property
    def preliminary(self) -> bool:
        return self.n >= POINTS_ONLY_BELOW and (self.is_live or self.n < PRELIMINARY_BELOW)

    def with_caveat(self, caveat: str) -> Comparison:
        """The same with this caveat, if it has a verdict."""
        return replace(self, caveat=caveat) if caveat and self.interval else self

    def sentence(self, a_name: str = "", b_name: str = "") -> str:
        """The verdict on B against A in one sentence, with its figures."""
        figures = _figures(self, a_name or self.a, b_name or self.b)
        if self.note:
            figures["why"] = self.note
            return _NOT_COMPARED.format(**figures)
        text = _SENTENCES[self.verdict].format(**figures)
        text = f"{text} {self.caveat}" if self.caveat else text
        return f"Preliminary: {text}" if self.preliminary else text


def decide(interval: Interval, interval_90: Interval, delta: float, better: Better) -> ComparisonVerdict:
    """The verdict, in this order: beyond the margin, equivalent, direction only, nothing detectable."""
    margin, (low, high) = 100 * delta, interval
    upward = (low + high) > 0
    good = upward == (better == "higher")
    if low > margin or high < -margin:
        return "better" if good else "worse"
    if interval_90[0] > -margin and interval_90[1] < margin:
        return "equivalent"
    if low > 0 or high < 0:
        return "direction_better" if good else "direction_worse"
    return "undetectable"


_FIGURES = "{metric} {ratio} ({interval}, {runs}{p})"
_SENTENCES: dict[ComparisonVerdict, str] = {
    "points_only": "Too few {unit}s to compare {b} with {a}: {metric} {ratio} from {runs}; "
    "a comparison needs 3{of_each}.",
    "better": "{b} is better than {a}: " + _FIGURES + ".",
    "worse": "{b} is worse than {a}: " + _FIGURES + ".",
    "equivalent": "{b} and {a} are equivalent within {delta}: {metric} {ratio} ({interval_90}, {runs}).",
    "direction_better": "{b} is likely better than {a}, size uncertain: " + _FIGURES + ".",
    "direction_worse": "{b} is likely worse than {a}, size uncertain: " + _FIGURES + ".",
    "undetectable": "Inconclusive, {b} against {a}: " + _FIGURES + ".",
}
_NOT_COMPARED = "{b} and {a} cannot be compared: {why}."


def _figures(one: Comparison, a: str, b: str) -> dict[str, str]:
    return {
        "a": a,
        "b": b,
        "metric": one.metric.label,
        "ratio": percent(one.ratio_percent),
        "interval": interval_text("95 % CI", one.interval),
        "interval_90": interval_text("90 % CI", one.interval_90),
        "runs": _runs(one.n_a, one.n_b, one.unit) + (", by ranks" if one.by_ranks else ""),
        "p": "" if one.p is None else f", {p_value(one.p)}",
        "delta": f"{100 * one.delta:g} %",
        "unit": one.unit,
        "of_each": " of each" if one.unit == "run" else "",
    }


def interval_text(name: str, interval: Interval | None) -> str:
    """The ends of an interval in percent, with its name; of one without a width, that runs do not vary."""
    low, high = interval or (math.nan, math.nan)
    if high - low < 100 * NO_SPREAD:
        return "no variation between runs"
    return f"{name} {signed(low)} to {signed(high)} %"


def _runs(n_a: int, n_b: int, unit: str = "run") -> str:
    if n_a != n_b:
        return f"{n_b} and {n_a} {unit}s"
    if unit != "run":
        return f"{n_a} {unit}s" if n_a > 1 else f"1 {unit}"
    return "1 run of each" if n_a == 1 else f"{n_a} runs of each"


def figure(value: float) -> str:
    """A value for a sentence: four digits, with separators from a thousand on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ratio_percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)


def ratio_interval(low: float, high: float) -> Interval:
    return ratio_percent(float(low)), ratio_percent(float(high))


def half_width_percent(interval: Interval) -> float:
    """Of an interval in percent: how far its ends are from its middle, as a ratio."""
    low, high = (math.log1p(end / 100) for end in interval)
    return ratio_percent((high - low) / 2)


def logs(values: Sequence[float]) -> Floats:
    """Natural logarithms. Raises PlanError for a value that has none: ratios need figures above zero."""
    array = np.asarray(values, dtype=np.float64)
    bad = array[~(np.isfinite(array) & (array > 0))]
    if bad.size:
        raise PlanError(
            "metric", f"{bad[0]:g} has no ratio to other values", hint="choose a metric that is above zero in every run"
        )
    return np.log(array)


def by_level(rows: Sequence[Observation]) -> dict[str, list[Observation]]:
    """Rows of each level, levels in the order of their first row."""
    levels: dict[str, list[Observation]] = {}
    for row in rows:
        levels.setdefault(row.level, []).append(row)
    return levels


def whole_blocks(rows: Sequence[Observation]) -> list[Observation]:
    """Rows of those blocks in which every level has one: where blocks differ, as hosts do, no level must be judged by
    those that it happens to be in."""
    levels = {row.level for row in rows}
    levels_of: dict[int, set[str]] = {}
    for row in rows:
        levels_of.setdefault(row.block, set()).add(row.level)
    return [row for row in rows if levels_of[row.block] == levels]


def of_hosts(hosts: Sequence[Sequence[Observation]], *, identical: bool) -> list[Observation]:
    """What is judged together of several hosts, whose blocks have numbers of their own: the means of each, or whole
    blocks where the hosts are taken to be identical. Of one host all runs."""
    if len(hosts) < 2:
        return [row for rows in hosts for row in rows]
    return whole_blocks([row for rows in hosts for row in rows]) if identical else means_of_hosts(hosts)


def means_of_hosts(hosts: Sequence[Sequence[Observation]]) -> list[Observation]:
    """One observation for each level of each host, which is then a block: the geometric mean of runs in whole blocks.

    What levels do differs from host to host (host x level), so that runs of one host are no replicates of others."""
    means = []
    for number, rows in enumerate(hosts):
        for level, own in by_level(whole_blocks(rows)).items():
            mean = math.exp(float(logs([row.value for row in own]).mean()))
            means.append(Observation(level, number, mean, number, unit="host"))
    return means


def complete_blocks(rows: Sequence[Observation]) -> bool:
    """True when there are two blocks at least and every level ran equally often in every one of them."""
    cells: dict[tuple[str, int], int] = {}
    for row in rows:
        cells[row.level, row.block] = cells.get((row.level, row.block), 0) + 1
    levels, blocks = {level for level, _ in cells}, {block for _, block in cells}
    return len(blocks) > 1 and len(cells) == len(levels) * len(blocks) and len(set(cells.values())) == 1
