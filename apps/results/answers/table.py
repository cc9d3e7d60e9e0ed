"""The results of a campaign as a table: its levels, their runs, and the certainty of each. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from apps.campaigns.models import Run
from apps.results.answers.hosts import HostAnswer
from common.wording import ci_of_mean


@dataclass(frozen=True)
class Point:
    """The campaign's metric in one ok run. `retry`: how often it had been run before."""

    run: UUID
    block: int
    position: int
    value: float
    host: str = ""
    retry: int = 0


@dataclass(frozen=True)
class Mode:
    """One of the two groups that the runs of a level form: its geometric mean, and its number of runs."""

    mean: float
    runs: int


@dataclass(frozen=True)
class LevelRow:
    """One combination of levels: `label` identifies it, `name` is what people read.

    Percentages are relative to the baseline; None where the data carry no such figure.

    A retried run counts once in `planned`, with each of its outcomes; `ended_at_first` and `failed_at_first` count the
    first outcome of each planned run, without cancelled ones. `ok`: how many runs have the metric; `quartiles`:
    their minimum, quartiles and maximum, if there are any. `zeros`: ok runs left out because their figure is 0,
    which has no ratio. `failed_percent`: transactions that failed, the mean of the runs; `failures`: sentences where
    failed transactions or runs are clearly more than at the baseline. `cpu`: a sentence where the verdict is
    inconclusive and that on CPU time per transaction is sure. `modes`: the lower and the upper one, if this level has
    runs of both."""

    label: str
    points: list[Point]
    planned: int
    outcomes: dict[str, int]
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    relative_percent: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None
    verdict: str = ""
    preliminary: bool = False
    sentence: str = ""
    latency_ms: float | None = None
    proven: int = 0
    proof_lines: list[str] = field(default_factory=list)
    mde_percent: float | None = None
    runs_needed: int | None = None
    method: str = ""
    ok: int = 0
    quartiles: list[float] = field(default_factory=list)
    name: str = ""
    failed_percent: float | None = None
    failures: str = ""
    zeros: int = 0
    cpu: str = ""
    modes: list[Mode] = field(default_factory=list)
    ended_at_first: int = 0
    failed_at_first: int = 0

    @property
    def not_ok(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome not in ("", Run.Outcome.OK))


@dataclass(frozen=True)
class CampaignTable:
    """The results of a campaign, level by level, with the first level as baseline.

    `interim_analysis`: the newest of a stopping rule, whose row has the interval adjusted for all of them.
    `overheads`: level with a tracer -> its cost, as a sentence. `hosts`: results of each of several hosts.
    `modes`: of runs with two modes, "percent" of the lower one against the upper one, and the numbers of runs of both.
    `within_blocks`: the intervals of means include the variation within blocks only.
    `starts`: label -> numbers of the boot, the cluster and the start of the server that its runs share with others.
    `noise_floor_percent`: the difference that two identical levels do not exceed in 95 % of campaigns."""

    metric: str
    unit: str
    better: str
    definition: str
    factor_names: str
    delta: float
    baseline: str
    levels: list[LevelRow]
    sentence: str
    method: str
    drift: dict[str, Any] | None
    interim_analysis: dict[str, Any] | None = None
    overheads: dict[str, str] = field(default_factory=dict)
    hosts: list[HostAnswer] = field(default_factory=list)
    disagreement: str = ""
    noise_floor_percent: float | None = None
    identical_hosts: bool = False
    unplanned_analysis: str = ""
    modes: dict[str, Any] | None = None
    within_blocks: bool = False
    starts: dict[str, list[int]] = field(default_factory=dict)

    @property
    def ci_of_mean(self) -> str:
        """The heading of the intervals of means."""
        return ci_of_mean(self.within_blocks)

    @property
    def bounded(self) -> list[LevelRow]:
        """The levels that have an interval against the baseline."""
        return [level for level in self.levels if level.relative_low is not None]

    @property
    def by_ranks(self) -> bool:
        """Whether levels are compared by ranks instead of means."""
        return any("by ranks" in level.method for level in self.bounded)

    def as_dict(self) -> dict[str, Any]:
        """Return the table as JSON-compatible values, with run IDs as text."""
        table = asdict(self)
        for row, level in zip(table["levels"], self.levels, strict=True):
            row["not_ok"] = level.not_ok
            row["points"] = [point | {"run": str(point["run"])} for point in row["points"]]
        return table
