"""SELECT only: what pages, API and charts show of a campaign and its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from agents.collectors.per_transaction import CPU
from apps.campaigns.design import plan, steps
from apps.campaigns.design.factors import text_of
from apps.campaigns.design.request import Arrangement
from apps.campaigns.models import Campaign, Run
from apps.results.answers import interim_analyses
from apps.results.answers.level_rows import FAILURES
from apps.results.answers.overheads import tracer_overheads
from apps.results.answers.result_table import result_table
from apps.results.answers.table import CampaignTable
from apps.results.models import Measurement
from apps.results.runs import fidelity
from apps.results.store import fold


def to_ingest() -> QuerySet[Run]:
    """Ended runs whose results are not read yet: those that took too long come last, so that others are read."""
    return Run.objects.filter(state=Run.State.ENDED, ingested_at=None).order_by("read_attempts", "ended_at")[:100]


def to_fold() -> QuerySet[Run]:
    """Active runs with more events of samples than pages should read."""
    started = Run.objects.filter(state=Run.State.RUNNING, events__kind="sample")
    return started.annotate(waiting=Count("events")).filter(waiting__gte=fold.TAIL + fold.MANY)


def campaign_table(campaign: Campaign, host: int | None = None) -> CampaignTable:
    """Three queries, whatever the number of runs: the runs, the two measurements shown, and their definition. For one
    host, or for all: then each host is a block, and has its own answer as well."""
    runs = _runs_of_table(campaign, host)
    chosen = steps.metric(campaign.steps, campaign.compared)
    labels = labels_of(campaign, runs)
    table = result_table(
        campaign,
        chosen,
        labels,
        runs,
        _values(campaign, chosen),
        interim_analyses.newest(campaign) if host is None else None,
    )
    return replace(
        table,
        definition=_definition(campaign, chosen),
        overheads=_overheads(campaign, chosen.step, labels),
    )


def _runs_of_table(campaign: Campaign, host: int | None) -> list[Run]:
    shown = ("pk", "campaign", "cell", "block", "position", "outcome", "proof", "retry_of", "host__name", "started_at")
    return list(runs_on(campaign, host).order_by("position").select_related("host").only(*shown))


def _overheads(campaign: Campaign, step: str, labels: Sequence[str]) -> dict[str, str]:
    costs = tracer_overheads(campaign, step)
    return {label: costs[label].sentence() for label in labels if label in costs}


def runs_on(campaign: Campaign, host: int | None) -> QuerySet[Run]:
    return campaign.runs.all() if host is None else campaign.runs.filter(host=host)


def evidence(campaign: Campaign) -> dict[str, Any]:
    """Return the evidence that a decision freezes: the design, the table, and each run with its figures."""
    runs = campaign.runs.order_by("position").select_related("host").prefetch_related("measurements")
    return {
        "campaign": {
            "id": str(campaign.pk),
            "name": campaign.name,
            "question": campaign.question,
            "host": campaign.host.name,
            "placement": campaign.placement,
            "further_hosts": [host.name for host in campaign.further_hosts.order_by("name")],
            **vars(Arrangement.of(campaign)),
            "delta": campaign.delta,
            "extensions": campaign.extensions,
        },
        "table": campaign_table(campaign).as_dict(),
        "runs": [_run_evidence(run) for run in runs],
        **_twin_evidence(campaign),
    }


def _twin_evidence(campaign: Campaign) -> dict[str, Any]:
    """How much the load resembled production; nothing if it is not a twin."""
    result = fidelity.lowest(campaign)
    if result is None:
        return {}
    shown = {"badge": result.badge, "sentence": result.sentence, "trusted": result.is_trusted}
    return {"twin": {"fidelity": result.value, "runs": result.runs, **shown}}


def _run_evidence(run: Run) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "host": run.host.name,
        "position": run.position,
        "block": run.block,
        "cell": run.cell,
        "digest": run.digest,
        "outcome": run.outcome,
        "error": run.error,
        "proof": run.proof,
        "measurements": {f"{row.step}.{row.name}": row.value for row in run.measurements.all()},
    }


def labels_of(campaign: Campaign, runs: Iterable[Run]) -> list[str]:
    """The combinations of levels in the order of the design, as Run.label writes them; of what was imported, those that
    there are, for not all need to have been run."""
    if campaign.kind != Campaign.Kind.IMPORTED:
        return [text_of(cell) for cell in plan.cells_of(Arrangement.of(campaign))]
    level_positions = {
        factor["name"]: {level["label"]: place for place, level in enumerate(factor["levels"])}
        for factor in campaign.factors
    }
    positions = {run.label: [level_positions[name][run.cell[name]] for name in level_positions] for run in runs}
    return sorted(positions, key=lambda label: positions[label])


def _values(campaign: Campaign, chosen: steps.Metric) -> dict[str, dict[UUID, float]]:
    """measurement name -> run -> value, of the ok runs' chosen step: the metric, mean latency, CPU time, FAILURES."""
    measurements = Measurement.objects.filter(
        run__campaign=campaign,
        run__outcome=Run.Outcome.OK,
        step=chosen.step,
        name__in={chosen.name, "latency_avg", *FAILURES, "transactions", CPU},
    )
    values: dict[str, dict[UUID, float]] = {}
    for name, run, value in measurements.values_list("name", "run_id", "value"):
        values.setdefault(name, {})[run] = value
    return values


def _definition(campaign: Campaign, chosen: steps.Metric) -> str:
    rows = Measurement.objects.filter(run__campaign=campaign, step=chosen.step, name=chosen.name)
    return ", ".join(sorted(rows.order_by().values_list("definition", flat=True).distinct()))


def metric_values(campaign: Campaign, runs: Iterable[Run]) -> dict[UUID, float]:
    """run -> the campaign's metric, of those that have it."""
    chosen = steps.metric(campaign.steps, campaign.compared)
    rows = Measurement.objects.filter(run__in=[run.pk for run in runs], step=chosen.step, name=chosen.name)
    return dict(rows.values_list("run_id", "value"))
