"""The figures of the level in the answer of a campaign that a DBA reads first. Only reads (SELECT)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from apps.campaigns.design import steps
from apps.campaigns.models import Campaign, Run
from apps.results.models import Measurement
from apps.results.queries import runs_on

PER_TRANSACTION = " per transaction"
# Name of a measurement -> its title, in the order of the strip.
TITLES: Mapping[str, str] = {
    "tps": "TPS",
    "tpmC": "tpmC",
    "nopm": "new orders/min",
    "iops": "IOPS",
    "latency_avg": "mean latency",
    "latency_p50": "p50 latency",
    "latency_p95": "p95 latency",
    "latency_p99": "p99 latency",
    "failed": "failed transactions",
    "skipped": "skipped transactions",
    "ignored_errors": "ignored errors",
    "cpu_per_transaction": f"CPU{PER_TRANSACTION}",
    "wal_per_transaction": f"WAL{PER_TRANSACTION}",
    "blocks_read_per_transaction": f"blocks read{PER_TRANSACTION}",
    "blocks_hit_per_transaction": f"blocks hit{PER_TRANSACTION}",
    "fsyncs_per_transaction": f"fsyncs{PER_TRANSACTION}",
    "context_switches_per_transaction": f"context switches{PER_TRANSACTION}",
    "page_faults_per_transaction": f"page faults{PER_TRANSACTION}",
}


@dataclass(frozen=True)
class KeyFigure:
    """The arithmetic mean of one figure over the ok runs of a level that have it.

    `unit` is "" if the title contains it."""

    title: str
    value: float
    unit: str

    @property
    def is_per_transaction(self) -> bool:
        return self.title.endswith(PER_TRANSACTION)

    @property
    def short_title(self) -> str:
        """The title below the heading "Per transaction"."""
        return self.title.removesuffix(PER_TRANSACTION)


def key_figures(campaign: Campaign, label: str, host: int | None = None) -> list[KeyFigure]:
    """Return the key figures of the step with the campaign's metric, at the level with this label; two queries."""
    step = steps.metric(campaign.steps, campaign.metric).step
    ok = runs_on(campaign, host).filter(outcome=Run.Outcome.OK).only("campaign", "cell")
    runs = [run.pk for run in ok if run.label == label]
    rows = Measurement.objects.filter(run__in=runs, step=step, name__in=TITLES).order_by()
    values: dict[tuple[str, str], list[float]] = {}
    for name, unit, value in rows.values_list("name", "unit", "value"):
        if math.isfinite(value):
            values.setdefault((name, unit), []).append(value)
    return of_measurements({name: (unit, float(np.mean(each))) for (name, unit), each in values.items()})


def of_measurements(values: Mapping[str, tuple[str, float]]) -> list[KeyFigure]:
    """Convert name of a measurement -> (unit, value) to key figures in the order of the strip."""
    return [
        KeyFigure(title, values[name][1], _unit(values[name][0])) for name, title in TITLES.items() if name in values
    ]


def _unit(unit: str) -> str:
    return unit if unit in ("ms", "us", "s", "B") else ""
