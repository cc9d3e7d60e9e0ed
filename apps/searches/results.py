"""SELECT only: what the rounds of a search measured, by candidate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import F, Q

from apps.campaigns.design import steps
from apps.campaigns.design.steps import Metric
from apps.campaigns.models import Campaign, Run
from apps.results.models import Measurement
from apps.searches import constraints
from apps.searches.constraints import ConfirmedConstraint, Constraint, MeasuredConstraint
from apps.searches.models import Round, Search, Trial
from stats.comparison import pareto
from stats.comparison.pareto import Front

FACTOR = "values"
DEFAULT = "default"
# Runs that count against their candidate; a cancelled or interrupted run does not.
BLAMED = (Run.Outcome.FAILED, Run.Outcome.NOT_IN_EFFECT)


@dataclass
class Evidence:
    """The log ratios of one candidate by round, and its failed runs; at least one of both. `second`: those of the
    second metric, in the same blocks. `figures`: metric of each constraint -> its figure in each run, None for a run
    that did not measure it."""

    rounds: dict[int, list[float]] = field(default_factory=dict)
    second: dict[int, list[float]] = field(default_factory=dict)
    failed: list[Run] = field(default_factory=list)
    figures: dict[str, list[float | None]] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        return [ratio for search_round in self.rounds.values() for ratio in search_round]

    @property
    def second_ratios(self) -> list[float]:
        return [ratio for each in self.second.values() for ratio in each]

    def is_of(self, number: int) -> bool:
        """Whether some of it is from the round `number`."""
        return number in self.rounds or any(run.round == number for run in self.failed)  # type: ignore[attr-defined]


def evidence(search: Search) -> dict[str, Evidence]:
    """Label of each candidate with results or failures -> its evidence. Two queries.

    A block counts only if its default has a result: if the default fails as well, the candidate is not to blame. With
    two metrics, a run has a result only if it has both."""
    metrics, limits = objectives(search), constraints_of(search)
    runs = list(_runs(search))
    figures = _figures(runs, [*metrics, *limits])
    logs = _logs(runs, metrics, figures)
    candidates: dict[str, Evidence] = {}
    for block in _blocks(runs):
        default = block.pop(DEFAULT, None)
        if default is None or default.pk not in logs:
            continue
        for label, run in block.items():
            if run.outcome in BLAMED:
                candidates.setdefault(label, Evidence()).failed.append(run)
            elif run.pk in logs:
                own_evidence = candidates.setdefault(label, Evidence())
                number: int = run.round  # type: ignore[attr-defined]  # annotated
                ratios = [one - base for one, base in zip(logs[run.pk], logs[default.pk], strict=True)]
                for rounds, ratio in zip((own_evidence.rounds, own_evidence.second), ratios, strict=False):
                    rounds.setdefault(number, []).append(ratio)
                for name, each in {limit.metric: limit for limit in limits}.items():
                    own = figures.get((run.pk, each.step, each.name))
                    own_evidence.figures.setdefault(name, []).append(own)
    return candidates


def objectives(search: Search) -> list[Metric]:
    """The metric of the search, and the second one if it has one."""
    return [steps.metric(search.campaign.steps, name) for name in metric_names(search)]


def metric_names(search: Search) -> list[str]:
    """The names of its objectives, as in the campaign."""
    return [search.campaign.metric, *filter(None, [search.second_metric])]


def _logs(
    runs: Iterable[Run], metrics: Sequence[Metric], figures: Mapping[tuple[UUID, str, str], float]
) -> dict[UUID, list[float]]:
    """Logarithms of all metrics of each run, with the sign that makes higher values better. Only runs with a positive
    figure of each have some."""
    logs: dict[UUID, list[float]] = {}
    for run in runs:
        own = [figures.get((run.pk, metric.step, metric.name), 0.0) for metric in metrics]
        if all(0 < value < math.inf for value in own):
            logs[run.pk] = [sign_of(each) * math.log(value) for each, value in zip(metrics, own, strict=True)]
    return logs


def front(search: Search, evidence: Mapping[str, Evidence], trials: Iterable[int]) -> Front[int] | None:
    """The Pareto front of these numbers of trials, which all have evidence; None for a search with one metric."""
    if not search.second_metric:
        return None
    own = {number: evidence[f"trial {number}"] for number in trials}
    return pareto.front(
        {number: list(zip(each.ratios, each.second_ratios, strict=True)) for number, each in own.items()}
    )


def constraints_of(search: Search) -> list[Constraint]:
    return constraints.read(search.constraints, search.campaign.steps)


def _figures(runs: Iterable[Run], metrics: Iterable[Metric | Constraint]) -> dict[tuple[UUID, str, str], float]:
    """(run, step, name) -> the figure of these metrics. One query."""
    wanted = reduce(or_, (Q(step=metric.step, name=metric.name) for metric in metrics))
    rows = Measurement.objects.filter(wanted, run__in=[run.pk for run in runs])
    return {(run, step, name): value for run, step, name, value in rows.values_list("run_id", "step", "name", "value")}


def default_checks(search: Search) -> list[MeasuredConstraint]:
    """The constraints with the mean of the default in all rounds, None before its first run. Two queries, none without
    constraints."""
    limits = constraints_of(search)
    if not limits:
        return []
    runs = [run for run in _runs(search) if run.cell.get(FACTOR) == DEFAULT and run.outcome == Run.Outcome.OK]
    figures = _figures(runs, limits)
    own = {limit.metric: [figures.get((run.pk, limit.step, limit.name)) for run in runs] for limit in limits}
    return constraints.measured_constraints(limits, own)


def confirmed_limits(search: Search, campaign: Campaign) -> dict[str, list[ConfirmedConstraint]]:
    """Label -> each constraint in the runs of the confirmation; of several hosts, that of the worst. Two queries, none
    without constraints."""
    limits = constraints_of(search)
    if not limits:
        return {}
    runs = list(campaign.runs.filter(outcome=Run.Outcome.OK, retries=None).only("cell", "host_id"))
    figures = _figures(runs, limits)
    groups: dict[str, dict[int, list[Run]]] = {}
    for run in runs:
        groups.setdefault(run.cell.get(FACTOR, ""), {}).setdefault(run.host_id, []).append(run)
    return {
        label: [
            constraints.worst(
                constraints.confirm(limit, [figures.get((run.pk, limit.step, limit.name)) for run in own])
                for own in by_host.values()
            )
            for limit in limits
        ]
        for label, by_host in groups.items()
    }


def direction(search: Search) -> int:
    """1 if a higher value of the metric is better, else -1."""
    return sign_of(objectives(search)[0])


def sign_of(metric: Metric) -> int:
    """1 if a higher value is better, else -1."""
    return -1 if metric.better == "lower" else 1


def _runs(search: Search) -> Iterable[Run]:
    """The ended runs of all rounds but the confirmation, in order; a retried run is replaced by its retry."""
    rounds = Q(campaign__search_round__search=search, campaign__search_round__kind=Round.Kind.SEARCH)
    ended = Run.objects.filter(rounds, state=Run.State.ENDED, retries=None)
    return (
        ended.annotate(round=F("campaign__search_round__number"))
        .order_by("round", "position")
        .only("campaign_id", "cell", "block", "host_id", "outcome", "error", "proof")
    )


def _blocks(runs: Iterable[Run]) -> list[dict[str, Run]]:
    """Label -> run, of each block on each host, in the order of the rounds."""
    blocks: dict[tuple[UUID, int, int], dict[str, Run]] = {}
    for run in runs:
        blocks.setdefault((run.campaign_id, run.host_id, run.block), {})[run.cell.get(FACTOR, "")] = run
    return list(blocks.values())


def failure(run: Run) -> tuple[str, str]:
    """State and reason of a trial whose run failed."""
    error: Mapping[str, object] = run.error or {}
    if error.get("setting") and error.get("wanted") is not None:
        reason = f"{error['setting']} should be {error['wanted']}; the host has {error.get('found')}"
    else:
        reason = str(error.get("message") or "a run failed")
    not_in_effect = run.outcome == Run.Outcome.NOT_IN_EFFECT
    return Trial.State.NOT_IN_EFFECT if not_in_effect else Trial.State.FAILED, reason
