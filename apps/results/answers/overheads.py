"""The overhead of a tracer: runs of a campaign that only differ in the tracer, compared. Only reads (SELECT)."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agents.wire.protocol import digest
from apps.campaigns.models import Campaign, Run
from apps.results.models import Measurement
from stats import Overhead, Timed, overhead

EVENTS, LOST = "tracer events", "tracer lost records"
# Measurements of total time and number of events; the first one of each that a step has counts.
TOOK = ("execution_mean", "elapsed_mean", "latency_avg")
TIMES = ("executions", "transactions")


def tracer_overheads(campaign: Campaign, step: str) -> dict[str, Overhead]:
    """Return label of a combination with a tracer -> its cost against the one without, in the measured `step`.

    Two queries; {} if the campaign traces nothing."""
    if not _traces(campaign):
        return {}
    ran = Run.objects.filter(campaign=campaign, outcome=Run.Outcome.OK).order_by("position")
    runs = list(ran.only("pk", "campaign", "cell", "block", "spec"))
    timed = _timed(runs, campaign, step)
    untraced: dict[str, list[Timed]] = defaultdict(list)
    traced: dict[tuple[str, str], list[Timed]] = defaultdict(list)
    for run in runs:
        if run.pk in timed and _traced(run.spec, step):
            traced[_apart(run.spec), run.label].append(timed[run.pk])
        elif run.pk in timed:
            untraced[_apart(run.spec)].append(timed[run.pk])
    return {
        label: overhead(rows, untraced[key])
        for (key, label), rows in traced.items()
        if untraced[key] and sum(row.events for row in rows)
    }


def _traces(campaign: Campaign) -> bool:
    paths = [path for factor in campaign.factors for level in factor["levels"] for path in level["set"]]
    return any("tracer" in step["options"] for step in campaign.steps) or any(".tracer." in p for p in paths)


def _traced(spec: Mapping[str, Any], step: str) -> bool:
    options = next(planned_step["options"] for planned_step in spec["steps"] if planned_step["name"] == step)
    return bool(options.get("tracer", {}).get("tool", "none") != "none")


def _apart(spec: Mapping[str, Any]) -> str:
    """Return a key of a run without its tracer, equal for runs that can be compared."""
    rest = copy.deepcopy(dict(spec))
    rest["settings"].get("cpu_affinity", {}).pop("tracer", None)
    for step in rest["steps"]:
        step["options"].pop("tracer", None)
    return digest(rest)


def _timed(runs: list[Run], campaign: Campaign, step: str) -> dict[UUID, Timed]:
    rows = Measurement.objects.filter(run__campaign=campaign, step=step, name__in=(*TOOK, *TIMES, EVENTS, LOST))
    figures: dict[UUID, dict[str, float]] = defaultdict(dict)
    for pk, name, value in rows.values_list("run_id", "name", "value"):
        figures[pk][name] = value
    timed = {}
    for run in runs:
        run_figures = figures[run.pk]
        took, times = (
            next((run_figures[name] for name in names if name in run_figures), None) for names in (TOOK, TIMES)
        )
        if (
            took is not None and times and LOST not in run_figures
        ):  # an incomplete count would make each event look more expensive
            timed[run.pk] = Timed(run.block, took, run_figures.get(EVENTS, 0.0) / times)
    return timed
