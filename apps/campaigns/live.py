"""SELECT only: the newest word of runs that are under way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from apps.campaigns.models import Run, RunEvent


@dataclass(frozen=True)
class Live:
    """The newest word of a run that is under way."""

    progress: dict[str, Any]
    values: dict[str, float]


def live(runs: Iterable[Run]) -> dict[UUID, Live]:
    """Two queries for any number of runs: the newest progress, and the newest sample of the load generator."""
    wanted = RunEvent.objects.filter(run__in=list(runs)).order_by("run_id", "-seq").distinct("run_id")
    done = dict(wanted.filter(kind="progress").values_list("run_id", "data"))
    samples = wanted.filter(kind="sample", data__values__has_any_keys=["tps", "iops"])
    values = {run: data["values"] for run, data in samples.values_list("run_id", "data")}
    return {run: Live(done.get(run, {}), values.get(run, {})) for run in done.keys() | values.keys()}
