"""Latencies: p99 compared as the metric is, and who decided when a transaction began."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q

import stats
from apps.campaigns.design import steps
from apps.campaigns.design.factors import text_of
from apps.campaigns.models import Campaign, Run
from apps.results.answers.judgements.judged_campaign import Asked
from apps.results.answers.sentences import Judgement, tone_of
from apps.results.models import Measurement
from common.wording import counted, first_of
from readers.percentiles import fewest

P99, P99_DELTA = "p99", 0.05


def latency(asked: Asked) -> Iterator[Judgement]:
    """The 99th percentiles of the metric's step, each a figure of a run, compared as the metric is."""
    if asked.chosen.name.endswith(P99):
        return
    found = _p99_values(asked)
    if not found:
        yield from _no_percentiles(asked)
    for name, values in found.items():
        have = {run: value for run, value in values.items() if value > 0}
        lacking = [p for level in asked.table.levels for p in level.points if p.run not in have]
        if lacking:
            yield _lacking(asked, name, len(lacking))
        else:
            yield from _compared(asked, name, have)


def _lacking(asked: Asked, name: str, count: int) -> Judgement:
    sentence = (
        f"{_spoken(name)} is not compared: {counted(count, 'run')} of {sum(level.ok for level in asked.table.levels)} "
        f"{'has' if count == 1 else 'have'} none, as it takes {fewest(99)} transactions, of which fewer than a "
        "hundredth may have been skipped as too late."
    )
    return Judgement("latency", sentence, "unknown", {"lacking": count})


def _p99_values(asked: Asked) -> dict[str, dict[UUID, float]]:
    rows = Measurement.objects.filter(
        Q(name="latency_p99") | Q(name__endswith=" clat_p99"),
        run__campaign=asked.campaign, run__outcome=Run.Outcome.OK, step=asked.chosen.step,
    )  # fmt: skip
    found: dict[str, dict[UUID, float]] = {}
    for name, run, value in rows.order_by("name").values_list("name", "run_id", "value"):
        found.setdefault(name, {})[run] = value
    return found


def _compared(asked: Asked, name: str, values: Mapping[UUID, float]) -> Iterator[Judgement]:
    metric = stats.Metric(_spoken(name), "ms" if name == "latency_p99" else "ns", "lower")
    rows = asked.observations(values)
    measured = {row.level for row in rows}
    if asked.table.baseline not in measured or len(measured) < 2:
        return
    for one in stats.against_baseline(rows, asked.table.baseline, metric, P99_DELTA):
        figures = {"level": one.b, "relative_percent": one.ratio_percent, "interval": one.interval}
        figures |= {"verdict": one.verdict, "delta": P99_DELTA, "mde_percent": one.mde_percent}
        yield Judgement("latency", one.sentence(), tone_of(one.verdict), figures)


def _spoken(name: str) -> str:
    return "p99 latency" if name == "latency_p99" else name


def _no_percentiles(asked: Asked) -> Iterator[Judgement]:
    kinds = {step["name"]: step["kind"] for step in steps.measured(asked.campaign.steps)}
    if kinds.get(asked.chosen.step) == "pgbench":
        sentence = "No latency percentiles: transactions were not logged individually (set log to reduced)."
        yield Judgement("latency", sentence, "unknown")


def loops(asked: Asked) -> Iterator[Judgement]:
    """Coordinated omission: which levels did not measure from the moment at which a transaction was due."""
    if asked.campaign.kind == Campaign.Kind.IMPORTED:
        return
    changes = {label: json.dumps(each) for label, each in _changes(asked).items()}
    loop = {each: _loop(asked, each) for each in set(changes.values())}  # most levels leave the workload alone
    told = {label: loop[each] for label, each in changes.items()}
    closed = [label for label, each in told.items() if each == "closed"]
    if not closed:
        return
    where = "" if len(closed) == len(told) else f" at {first_of(closed)}"
    sentence = (
        f"Closed loop{where}: latencies exclude the time that transactions wait behind a stall (coordinated "
        "omission). Set a rate to measure it."
    )
    yield Judgement("closed loop", sentence, "warning", {"levels": closed})


def _loop(asked: Asked, changes: str) -> str:
    own = steps.patch(asked.campaign.steps, json.loads(changes))
    return steps.loops({"steps": own}).get(asked.chosen.step, "")


def _changes(asked: Asked) -> dict[str, dict[str, Any]]:
    """label -> what its levels change in the steps of the workload."""
    return {
        text_of(cell): {
            path: value
            for level in cell.values()
            for path, value in level.set.items()
            if path.split(".")[0] in ("workload", "steps")
        }
        for cell in asked.design
    }
