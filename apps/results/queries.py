"""SELECT only: what pages, API and charts show of a campaign and its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import Count, QuerySet

import stats
from agents.collectors.per_transaction import CPU
from apps.campaigns.design import plan, steps
from apps.campaigns.design.factors import readable_name, text_of
from apps.campaigns.models import Campaign, Run
from apps.results.answers import cpu, interim_analyses
from apps.results.answers.headline import BETTER_FAILING, headline, missing
from apps.results.answers.hosts import HostAnswer, answer, block_numbers, disagreement, retries_of
from apps.results.answers.overheads import tracer_overheads
from apps.results.answers.table import CampaignTable, LevelRow, Point
from apps.results.models import Measurement
from apps.results.store import fold
from common.wording import percent
from stats.model import POINTS_ONLY_BELOW

# Fewer runs than this show no trend.
DRIFT_FROM = 6
FAILURES = ("failed", "ignored_errors")  # counts of failed transactions, of pgbench and of sysbench
QUARTILES = (0, 0.25, 0.5, 0.75, 1)


def to_ingest() -> QuerySet[Run]:
    """Ended runs whose results are not read yet."""
    return Run.objects.filter(state=Run.State.ENDED, ingested_at=None).order_by("ended_at")[:100]


def to_fold() -> QuerySet[Run]:
    """Runs that go on and have more samples lying as events than pages should read."""
    started = Run.objects.filter(state=Run.State.RUNNING, events__kind="sample")
    return started.annotate(waiting=Count("events")).filter(waiting__gte=fold.TAIL + fold.MANY)


def campaign_table(campaign: Campaign, host: int | None = None) -> CampaignTable:
    """Three queries, whatever the number of runs: the runs, the two measurements shown, and their definition. Of one
    host, or of all: then each is a block, and tells its own answer as well."""
    shown = ("pk", "campaign", "cell", "block", "position", "outcome", "proof", "retry_of", "host__name", "started_at")
    runs = list(runs_on(campaign, host).order_by("position").select_related("host").only(*shown))
    names = {run.host_id: run.host.name for run in runs}
    chosen = steps.metric(campaign.steps, campaign.metric)
    metric = stats.Metric(campaign.metric, chosen.unit, chosen.better)  # type: ignore[arg-type]
    values = _values(campaign, chosen)
    labels = labels_of(campaign, runs)
    rows: dict[str, list[Run]] = {label: [] for label in labels}
    for run in runs:
        rows[run.label].append(run)
    retries = retries_of(runs)
    measured = {label: _points(rows[label], values.get(chosen.name, {}), retries) for label in labels}
    of_host = of_points(measured)
    identical = campaign.placement == Campaign.Placement.SPREAD
    baseline = labels[0]
    observations = stats.of_hosts(list(of_host.values()), identical=identical)
    spread = stats.level_table(observations) if observations else None
    newest = interim_analyses.newest(campaign) if host is None else None
    unplanned = interim_analyses.unplanned(campaign, newest)
    compared = {one.b: one for one in _compared(observations, baseline, metric, campaign.delta, unplanned)}
    answers = [
        _host_answer(key, name, of_host.get(name, []), baseline, metric, campaign.delta, unplanned)
        for key, name in names.items()
        if len(names) > 1
    ]
    means = {level.level: level for level in spread.levels} if spread else {}
    latencies = values.get("latency_avg", {})
    readable = {run.label: readable_name(campaign.factors, run.cell) for run in runs}
    levels = [
        _level(
            *(label, readable, rows[label], measured[label], means.get(label), compared.get(label), latencies),
            zeros=sum(values.get(chosen.name, {}).get(run.pk, 1.0) <= 0 for run in rows[label]),
        )
        for label in labels
    ]
    costs = tracer_overheads(campaign, chosen.step)
    if newest and newest.found:
        levels = [_with_interim_interval(level, baseline, newest.found) for level in levels]
    levels = _with_failures(levels, _failed_shares(values), baseline, metric.label)
    costly = _costs(measured, values.get(CPU, {}), identical)
    by_cpu = {one.b: one for one in _compared(costly, baseline, cpu.METRIC, campaign.delta, unplanned)}
    base = readable.get(baseline, baseline)
    levels = [cpu.with_cpu(level, by_cpu.get(level.label), metric.label, base) for level in levels]
    best = headline(levels, metric.better)
    analysis_sentence = newest.found["sentence"] if newest and newest.found and not (best and best.failures) else ""
    return CampaignTable(
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        definition=_definition(campaign, chosen),
        factor_names=", ".join(factor["name"] for factor in campaign.factors),
        delta=campaign.delta,
        baseline=baseline,
        levels=levels,
        sentence=analysis_sentence or _sentence(levels, baseline, metric.better),
        method=_method(spread, list(of_host.values()), identical) if spread else "",
        drift=_drift(observations, campaign.delta) if len(names) == 1 else None,
        look=newest.as_dict() if newest else None,
        hosts=answers,
        disagreement=disagreement(answers),
        overheads={label: costs[label].sentence() for label in labels if label in costs},
        noise_floor_percent=_noise_floor(spread),
        identical_hosts=identical,
        unplanned_look=unplanned,
    )


def runs_on(campaign: Campaign, host: int | None) -> QuerySet[Run]:
    return campaign.runs.all() if host is None else campaign.runs.filter(host=host)


def of_points(measured: Mapping[str, list[Point]]) -> dict[str, list[stats.Observation]]:
    """Host -> its runs in the order of the levels; no two hosts have a block in common."""
    points = [(label, point) for label, own in measured.items() for point in own]
    numbers = block_numbers((point.host, point.block, point.retry) for _, point in points)
    hosts: dict[str, list[stats.Observation]] = {}
    for label, point in points:
        block = numbers[point.host, point.block, point.retry]
        row = stats.Observation(label, block, point.value, point.position, retried=point.retry > 0)
        hosts.setdefault(point.host, []).append(row)
    return hosts


def _host_answer(
    host: int,
    name: str,
    rows: list[stats.Observation],
    baseline: str,
    metric: stats.Metric,
    delta: float,
    unplanned: str,
) -> HostAnswer:
    compared = {one.b: one for one in _compared(rows, baseline, metric, delta, unplanned)}
    return answer(host, name, rows, compared, baseline)


def _noise_floor(spread: stats.LevelTable | None) -> float | None:
    """Of as many runs as the level has that has the fewest."""
    if spread is None or not spread.s:
        return None
    n = min(level.n for level in spread.levels)
    enough = n >= POINTS_ONLY_BELOW and len(spread.levels) > 1
    return stats.noise_floor_percent(spread.s, n, spread.df) if enough else None


def _method(spread: stats.LevelTable, hosts: Sequence[Sequence[stats.Observation]], identical: bool) -> str:
    if len(hosts) < 2:
        return spread.method
    every = [row for rows in hosts for row in rows]
    used = [row for rows in hosts for row in stats.whole_blocks(rows)] if not identical else stats.whole_blocks(every)
    left = len(every) - len(used)
    unit = "" if identical else f"; one mean for each of {len(hosts)} hosts"
    return spread.method + unit + (f"; {left} left out because their block lacks a level on its host" if left else "")


def evidence(campaign: Campaign) -> dict[str, Any]:
    """What a decision freezes: the design, the table, and every run with its figures."""
    runs = campaign.runs.order_by("position").select_related("host").prefetch_related("measurements")
    return {
        "campaign": {
            "id": str(campaign.pk),
            "name": campaign.name,
            "question": campaign.question,
            "host": campaign.host.name,
            "placement": campaign.placement,
            "further_hosts": [host.name for host in campaign.further_hosts.order_by("name")],
            "factors": campaign.factors,
            "repetitions": campaign.repetitions,
            "design": campaign.design,
            "cells": campaign.cells,
            "sample": campaign.sample,
            "order": campaign.order,
            "nuisance": campaign.nuisance,
            "seed": campaign.seed,
            "reboot": campaign.reboot,
            "delta": campaign.delta,
            "extensions": campaign.extensions,
        },
        "table": campaign_table(campaign).as_dict(),
        "runs": [_run_evidence(run) for run in runs],
    }


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
        factors = plan.read_factors(campaign.factors)
        cells = plan.cells(factors, campaign.design, campaign.cells, campaign.sample, campaign.seed)
        return [text_of(cell) for cell in cells]
    places = {
        factor["name"]: {level["label"]: place for place, level in enumerate(factor["levels"])}
        for factor in campaign.factors
    }
    positions = {run.label: [places[name][run.cell[name]] for name in places] for run in runs}
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


def _costs(
    measured: Mapping[str, list[Point]], cpu_ms: Mapping[UUID, float], identical: bool
) -> list[stats.Observation]:
    """The same runs with their CPU time per transaction, of those that have it."""
    own = {
        label: [replace(point, value=cpu_ms[point.run]) for point in points if cpu_ms.get(point.run, 0.0) > 0]
        for label, points in measured.items()
    }
    return stats.of_hosts(list(of_points(own).values()), identical=identical)


def _failed_shares(values: Mapping[str, Mapping[UUID, float]]) -> dict[UUID, float]:
    """run -> share of its transactions that failed, 0 to 1; of those that count both."""
    succeeded = values.get("transactions", {})
    failed = {run: count for name in FAILURES for run, count in values.get(name, {}).items() if run in succeeded}
    return {run: count / max(1.0, count + succeeded[run]) for run, count in failed.items()}


def _with_failures(levels: list[LevelRow], shares: Mapping[UUID, float], baseline: str, metric: str) -> list[LevelRow]:
    """With the shares of failed transactions; a better level that fails clearly more often says so in its verdict."""
    of_level = {level.label: [shares[point.run] for point in level.points if point.run in shares] for level in levels}
    name = next((level.name for level in levels if level.label == baseline), "") or baseline
    return [_failing(level, of_level[level.label], of_level.get(baseline, []), name, metric) for level in levels]


def _failing(level: LevelRow, own: list[float], base: list[float], baseline: str, metric: str) -> LevelRow:
    if not own:
        return level
    level = replace(level, failed_percent=100 * float(np.mean(own)))
    if not stats.fails_more(own, base):
        return level
    text = f"{level.failed_percent:.3g} % of the transactions of {level.name} failed"
    against = f"against {100 * np.mean(base):.3g} % at {baseline}"
    failures = f"{text}, {against}. Its {metric} counts only those that succeeded."
    if level.verdict not in ("better", "direction_better"):
        return replace(level, failures=failures)
    size = f"{metric} {percent(level.relative_percent or 0.0)}"
    sentence = f"{level.name} is better than {baseline}, but more of its transactions failed: {size}. {failures}"
    return replace(level, failures=failures, verdict=BETTER_FAILING, sentence=sentence)


def _definition(campaign: Campaign, chosen: steps.Metric) -> str:
    rows = Measurement.objects.filter(run__campaign=campaign, step=chosen.step, name=chosen.name)
    return ", ".join(sorted(rows.order_by().values_list("definition", flat=True).distinct()))


def _points(runs: list[Run], values: dict[UUID, float], retries: Mapping[UUID, int]) -> list[Point]:
    """Of the runs whose figure can be compared: a ratio needs one above 0."""
    return [
        Point(run.pk, run.block, run.position, values[run.pk], run.host.name, retries[run.pk])
        for run in runs
        if values.get(run.pk, 0.0) > 0
    ]


def _compared(
    rows: list[stats.Observation], baseline: str, metric: stats.Metric, delta: float, unplanned: str
) -> list[stats.Comparison]:
    """Nothing to compare while only one level, or not the baseline, has runs."""
    measured = {row.level for row in rows}
    if baseline not in measured or len(measured) < 2:
        return []
    comparisons = stats.against_baseline(rows, baseline, metric, delta)
    return [stats.at_unplanned_analysis(one) for one in comparisons] if unplanned else comparisons


def _level(
    label: str,
    readable: Mapping[str, str],
    runs: list[Run],
    points: list[Point],
    spread: stats.Level | None,
    compared: stats.Comparison | None,
    latencies: dict[UUID, float],
    zeros: int,
) -> LevelRow:
    proofs = [run.proof for run in runs if run.outcome == Run.Outcome.OK and run.proof]
    measured = [latencies[point.run] for point in points if point.run in latencies]
    low, high = spread.interval if spread and spread.interval else (None, None)
    relative_low, relative_high = compared.interval if compared and compared.interval else (None, None)
    return LevelRow(
        label=label,
        name=readable.get(label, label),
        points=points,
        planned=len({run.pk for run in runs} - {run.retry_of_id for run in runs}),
        outcomes=dict(Counter("" if _never_began(run) else run.outcome for run in runs)),
        mean=spread.mean if spread else None,
        low=low,
        high=high,
        relative_percent=compared.ratio_percent if compared else None,
        relative_low=relative_low,
        relative_high=relative_high,
        verdict=compared.verdict if compared else "",
        preliminary=compared.preliminary if compared else False,
        sentence=compared.sentence(readable[compared.a], readable[compared.b]) if compared else "",
        latency_ms=float(np.mean(measured)) if measured else None,
        mde_percent=compared.mde_percent if compared else None,
        runs_needed=compared.runs_needed if compared else None,
        method=compared.method if compared else "",
        proven=sum(proof["checked"] > 0 and proof["checked"] == proof["ok"] for proof in proofs),
        proof_lines=list(dict.fromkeys(line for proof in proofs for line in proof["lines"])),
        ok=len(points),
        zeros=zeros,
        quartiles=np.quantile([point.value for point in points], QUARTILES).tolist() if points else [],
    )


def _never_began(run: Run) -> bool:
    """Cancelled before it began: it has no end, good or bad."""
    return run.outcome == Run.Outcome.CANCELLED and run.started_at is None


def _with_interim_interval(level: LevelRow, baseline: str, analysis: dict[str, Any]) -> LevelRow:
    """The row that a stop rule compares, with the interval of the newest interim analysis, adjusted for all of them."""
    if (analysis["a"], analysis["b"]) != (baseline, level.label):
        return level
    fields = {name: analysis[name] for name in ("verdict", "preliminary", "sentence")}
    ends = {"relative_low": analysis["low"], "relative_high": analysis["high"]}
    return replace(level, relative_percent=analysis["ratio_percent"], **ends, **fields)


def _sentence(levels: list[LevelRow], baseline: str, better: str) -> str:
    """The verdict that answers the question, or why there is none."""
    level = headline(levels, better)
    return level.sentence if level else f"No comparison: {missing(levels, baseline)}."


def _drift(rows: list[stats.Observation], delta: float) -> dict[str, Any] | None:
    """None when there are too few runs for a test."""
    if len(rows) < DRIFT_FROM:
        return None
    drift = stats.drift(rows, delta)
    return asdict(drift) | {"sentence": drift.sentence()}


def metric_values(campaign: Campaign, runs: Iterable[Run]) -> dict[UUID, float]:
    """run -> the campaign's metric, of those that have it."""
    chosen = steps.metric(campaign.steps, campaign.metric)
    rows = Measurement.objects.filter(run__in=[run.pk for run in runs], step=chosen.step, name=chosen.name)
    return dict(rows.values_list("run_id", "value"))
