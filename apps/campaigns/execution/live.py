"""SELECT only: the newest progress and throughput of active runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents.workloads import RATES, SAMPLES
from apps.campaigns.models import Run, RunEvent


@dataclass(frozen=True)
class Throughput:
    """What a load generator achieves per second, in the unit that it reports."""

    value: float
    unit: str


@dataclass(frozen=True)
class Live:
    """The newest progress of an active run, and its newest throughput, if its load generator reports one."""

    progress: dict[str, Any]
    throughput: Throughput | None


def throughput(source: str, values: Mapping[str, float | None]) -> Throughput | None:
    """The throughput in a sample of this source; None if it has none."""
    rates = RATES.get(source, ())
    known = [value for value in map(values.get, rates) if value is not None]
    return Throughput(float(sum(known)), SAMPLES[source][rates[0]].unit.upper()) if known else None


def live(runs: Iterable[Run]) -> dict[UUID, Live]:
    """Two queries for any number of runs: the newest progress, and the newest sample of the load generator."""
    wanted = RunEvent.objects.filter(run__in=list(runs)).order_by("run_id", "-seq").distinct("run_id")
    done = dict(wanted.filter(kind="progress").values_list("run_id", "data"))
    samples = wanted.filter(kind="sample", data__source__in=list(RATES)).values_list("run_id", "data")
    rates = {run: throughput(data["source"], data["values"]) for run, data in samples}
    return {run: Live(done.get(run, {}), rates.get(run)) for run in done.keys() | rates.keys()}
