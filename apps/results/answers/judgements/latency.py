"""Latencies: p99 compared in the same way as the metric, and what a closed loop or a fixed rate hides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q

import stats
from apps.campaigns.design import fixed_rate, steps
from apps.campaigns.design.factors import text_of
from apps.campaigns.models import Campaign, Run
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.margins import P99, margin_of
from apps.results.answers.sentences import Judgement
from apps.results.models import Measurement
from common.verdicts import verdict
from common.wording import counted, first_of
from readers.percentiles import fewest


def latency(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield the 99th percentiles of the metric's step, compared in the same way as the metric."""
    if judged.chosen.name.endswith(P99):
        return
    p99_values = _p99_values(judged)
    if not p99_values:
        yield from _no_percentiles(judged)
    for name, values in p99_values.items():
        have = {run: value for run, value in values.items() if value > 0}
        lacking = [p for level in judged.table.levels for p in level.points if p.run not in have]
        if lacking:
            yield _lacking(judged, name, len(lacking))
        else:
            yield from _compared(judged, name, have)


def _lacking(judged: JudgedCampaign, name: str, count: int) -> Judgement:
    sentence = (
        f"{_spoken(name)} is not compared: {counted(count, 'run')} of {sum(level.ok for level in judged.table.levels)} "
        f"{'has' if count == 1 else 'have'} none, as it takes {fewest(99)} transactions, of which fewer than a "
        "hundredth may have been skipped as too late."
    )
    return Judgement("latency", sentence, "unknown", {"lacking": count})


def _p99_values(judged: JudgedCampaign) -> dict[str, dict[UUID, float]]:
    rows = Measurement.objects.filter(
        Q(name="latency_p99") | Q(name__endswith=" clat_p99"),
        run__campaign=judged.campaign, run__outcome=Run.Outcome.OK, step=judged.chosen.step,
    )  # fmt: skip
    values: dict[str, dict[UUID, float]] = {}
    for name, run, value in rows.order_by("name").values_list("name", "run_id", "value"):
        values.setdefault(name, {})[run] = value
    return values


def _compared(judged: JudgedCampaign, name: str, values: Mapping[UUID, float]) -> Iterator[Judgement]:
    metric = stats.Metric(_spoken(name), "ms" if name == "latency_p99" else "ns", "lower")
    rows = judged.observations(values)
    measured = {row.level for row in rows}
    if judged.table.baseline not in measured or len(measured) < 2:
        return
    margin = margin_of(name, judged.campaign)
    for planned in stats.against_baseline(rows, judged.table.baseline, metric, margin, judged.table.starts):
        comparison = judged.adjusted(planned)
        figures = {"level": comparison.b, "relative_percent": comparison.ratio_percent, "interval": comparison.interval}
        figures |= {"verdict": comparison.verdict, "delta": margin, "mde_percent": comparison.mde_percent}
        yield Judgement("latency", comparison.sentence(), verdict(comparison.verdict).tone, figures)


def _spoken(name: str) -> str:
    return "p99 latency" if name == "latency_p99" else name


def _no_percentiles(judged: JudgedCampaign) -> Iterator[Judgement]:
    kinds = {step["name"]: step["kind"] for step in steps.measured(judged.campaign.steps)}
    if kinds.get(judged.chosen.step) == "pgbench":
        sentence = "No latency percentiles: transactions were not logged individually (set log to reduced)."
        yield Judgement("latency", sentence, "unknown")


def at_fixed_rate(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield why a latency is compared although users chose a throughput."""
    if judged.table.metric != judged.campaign.metric:
        sentence = fixed_rate.explanation(judged.campaign.metric, judged.table.metric)
        yield Judgement("fixed rate", sentence, "note")


def loops(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield a warning of coordinated omission, for levels without a rate."""
    if judged.campaign.kind == Campaign.Kind.IMPORTED:
        return
    changes = {label: json.dumps(each) for label, each in _changes(judged).items()}
    loop = {change: _loop(judged, change) for change in set(changes.values())}  # most levels do not change the workload
    loop_by_level = {label: loop[each] for label, each in changes.items()}
    closed = [label for label, each in loop_by_level.items() if each == "closed"]
    if not closed:
        return
    where = "" if len(closed) == len(loop_by_level) else f" at {first_of(closed)}"
    sentence = (
        f"Closed loop{where}: latencies exclude the time that transactions wait behind a stall (coordinated "
        "omission). Set a rate to measure it."
    )
    yield Judgement("closed loop", sentence, "warning", {"levels": closed})


def _loop(judged: JudgedCampaign, changes: str) -> str:
    own = steps.patch(judged.campaign.steps, json.loads(changes))
    return steps.loops({"steps": own}).get(judged.chosen.step, "")


def _changes(judged: JudgedCampaign) -> dict[str, dict[str, Any]]:
    """Return label -> the options of steps that its levels change."""
    return {
        text_of(cell): {
            path: value
            for level in cell.values()
            for path, value in level.set.items()
            if path.split(".")[0] in ("workload", "steps")
        }
        for cell in judged.design
    }
