"""SELECT only: what pages, API and charts show of a campaign and its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import QuerySet
from numpy.typing import NDArray

from apps.campaigns.models import Campaign, Run
from apps.results import stats
from apps.results.models import Measurement, Series

UNITS = {"tps": "TPS", "latency_ms": "ms", "stddev_ms": "ms"}


@dataclass(frozen=True)
class Point:
    """The campaign's metric in one ok run."""

    run: UUID
    block: int
    position: int
    value: float


@dataclass(frozen=True)
class LevelRow:
    """One combination of levels. Percentages are relative to the baseline; None where the data carry no such figure."""

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
    sentence: str = ""
    latency_ms: float | None = None
    proven: int = 0
    proof_lines: list[str] = field(default_factory=list)

    @property
    def ok(self) -> int:
        return len(self.points)

    @property
    def not_ok(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome not in ("", Run.Outcome.OK))


@dataclass(frozen=True)
class CampaignTable:
    """The answer of a campaign as far as its data carry: level by level, against the first level as baseline."""

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

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, with run ids as text."""
        table = asdict(self)
        for row, level in zip(table["levels"], self.levels, strict=True):
            row |= {"ok": level.ok, "not_ok": level.not_ok}
            row["points"] = [point | {"run": str(point["run"])} for point in row["points"]]
        return table


@dataclass(frozen=True)
class Column:
    """One line of a run's chart: samples over t, seconds since the step began; nan where one is missing."""

    name: str
    unit: str
    panel: str
    t: NDArray[np.float64]
    values: NDArray[np.float64]


def to_ingest() -> QuerySet[Run]:
    """Ended runs whose results are not read yet."""
    return Run.objects.filter(state=Run.State.ENDED, ingested_at=None).order_by("ended_at")[:100]


def campaign_table(campaign: Campaign) -> CampaignTable:
    """Two queries, whatever the number of runs: the runs, and the two measurements that the table shows."""
    runs = list(campaign.runs.order_by("position").only("pk", "cell", "block", "position", "outcome", "proof"))
    values = _values(campaign)
    metric = stats.metric(campaign.metric)
    labels = _labels(campaign)
    rows = {label: [run for run in runs if run.label == label] for label in labels}
    measured = {label: _points(rows[label], values.get(campaign.metric, {})) for label in labels}
    observations = [
        stats.Observation(label, point.block, point.value, point.position)
        for label in labels
        for point in measured[label]
    ]
    baseline = labels[0]
    spread = stats.level_table(observations) if observations else None
    compared = {one.b: one for one in _compared(observations, baseline, metric, campaign.delta)}
    means = {level.level: level for level in spread.levels} if spread else {}
    latencies = values.get("latency_avg", {})
    levels = [
        _level(label, rows[label], measured[label], means.get(label), compared.get(label), latencies)
        for label in labels
    ]
    return CampaignTable(
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        definition=_definition(campaign),
        factor_names=", ".join(factor["name"] for factor in campaign.factors),
        delta=campaign.delta,
        baseline=baseline,
        levels=levels,
        sentence=_sentence(campaign, levels),
        method=spread.method if spread else "",
        drift=_drift(observations, campaign.delta),
    )
