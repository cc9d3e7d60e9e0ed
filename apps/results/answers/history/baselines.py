"""Runs with the same spec on a host in several campaigns: has its performance changed? Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

import stats
from agents.wire.protocol import digest
from apps.campaigns.design import steps
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Facts, Host
from apps.results.answers.sentences import Judgement
from apps.results.models import Measurement
from apps.results.store.answer_cache import cached_answer, program
from common.errors import PlanError
from stats.trends.over_time import FEWEST

# The newest runs of a host, and the specs that were repeated most often.
NEWEST, MOST = 1000, 5


class RepeatedRun(NamedTuple):
    """The columns of a run. They are read for up to a thousand runs."""

    pk: UUID
    digest: str
    campaign_id: UUID
    cell: dict[str, str]
    started_at: datetime
    facts_id: int | None


@dataclass(frozen=True)
class Baseline:
    """Runs of one spec in order of time. `values`: of the metric of the newest campaign with this spec."""

    newest: Campaign
    host: int
    digest: str
    title: str
    metric: str
    unit: str
    runs: list[UUID]
    at: list[datetime]
    values: list[float]
    environments: list[str]
    delta: float

    @property
    def latest(self) -> UUID:
        return self.runs[-1]

    @property
    def quantity(self) -> str:
        return self.metric if self.unit in ("", self.metric) else f"{self.metric} ({self.unit})"

    @cached_property
    def changes(self) -> list[stats.ChangePoint]:
        """The changes of its level, cached: they take a thousand permutations for each segment."""
        data = (self.values, self.environments, self.delta)
        key = digest([*data, program()])
        cached = cached_answer(
            self.newest, f"changes of {self.digest[:16]} on {self.host}", key, lambda: stats.change_points(*data)
        )
        return msgspec.json.decode(cached, type=list[stats.ChangePoint])

    def judgements(self) -> list[Judgement]:
        """Return findings on the newest run against earlier ones, and on every change of level."""
        newest = stats.scores(self.values, self.delta)[-1]
        judgements = []
        if newest:
            score = {"z": newest.z, "change_percent": newest.change_percent, "runs": newest.of}
            sentence = newest.sentence(f"Its newest run, from {self.at[-1]:%Y-%m-%d %H:%M},")
            judgements.append(Judgement("newest run", sentence, "warning" if newest.alert else "note", score))
        for change in self.changes:
            when = f"{self.at[change.at]:%Y-%m-%d %H:%M}"
            figures = {"at": when, "change_percent": change.change_percent, "p": change.p, "why": change.why}
            tone = "note" if abs(change.change_percent) < 100 * self.delta else "warning"
            judgements.append(Judgement("change", f"{when}: {change.sentence(self.unit)}", tone, figures))  # type: ignore[arg-type]
        return judgements


def baselines(host: Host, only: str = "") -> list[Baseline]:
    """Return the specs of more than FEWEST of the host's newest ok runs in at least two campaigns, or the one with
    the digest `only`. Five queries."""
    ended = Run.objects.filter(host=host, outcome=Run.Outcome.OK, started_at__isnull=False)
    ended = ended.filter(digest=only) if only else ended
    ended = ended.filter(campaign__kind=Campaign.Kind.COMPARISON).order_by("-ended_at")
    newest = ended[:NEWEST]
    groups: dict[str, list[RepeatedRun]] = {}
    for run in map(RepeatedRun._make, newest.values_list(*RepeatedRun._fields)):
        groups.setdefault(run.digest, []).append(run)
    often = [runs[::-1] for runs in groups.values() if len(runs) > FEWEST and len({r.campaign_id for r in runs}) > 1]
    often = sorted(often, key=len, reverse=True)[:MOST]
    campaigns = Campaign.objects.select_related("workload").in_bulk({runs[-1].campaign_id for runs in often})
    where = _environments({run.facts_id for runs in often for run in runs})
    names = {metric.name for metric in map(_metric, campaigns.values()) if metric}
    values = Measurement.objects.filter(run__in=newest.values("pk"), name__in=names).order_by()
    known = {(run, step, name): value for run, step, name, value in values.values_list("run", "step", "name", "value")}
    candidates = (_baseline(host, campaigns[runs[-1].campaign_id], runs, known, where) for runs in often)
    return [candidate for candidate in candidates if candidate and len(candidate.values) > FEWEST]


def _metric(campaign: Campaign) -> steps.Metric | None:
    """Return None if its workload was imported, or no longer measures its metric."""
    try:
        return steps.metric(campaign.steps, campaign.compared)
    except PlanError:
        return None


def _baseline(
    host: Host,
    campaign: Campaign,
    runs: Sequence[RepeatedRun],
    known: dict[tuple[UUID, str, str], float],
    where: dict[int | None, str],
) -> Baseline | None:
    metric = _metric(campaign)
    if metric is None:
        return None
    label = Run(campaign=campaign, cell=runs[-1].cell).label
    of = [(run, known.get((run.pk, metric.step, metric.name), 0.0)) for run in runs]
    of = [(run, value) for run, value in of if value > 0]
    return Baseline(
        newest=campaign,
        host=host.pk,
        digest=runs[-1].digest,
        title=f"{campaign.name}, {label}: {campaign.compared}",
        metric=campaign.compared,
        unit=metric.unit,
        runs=[run.pk for run, _ in of],
        at=[run.started_at for run, _ in of],
        values=[value for _, value in of],
        environments=[where.get(run.facts_id, "") for run, _ in of],
        delta=campaign.delta,
    )


def _environments(keys: set[int | None]) -> dict[int | None, str]:
    """Return the kernel and the PostgreSQL versions in the facts with these keys."""
    known = Facts.objects.filter(pk__in=[key for key in keys if key])
    rows = known.values_list("pk", "data__kernel__release", "data__postgresql")
    return {key: _environment(kernel, servers or []) for key, kernel, servers in rows}


def _environment(kernel: str | None, servers: Sequence[dict[str, Any]]) -> str:
    versions = ", ".join(sorted({str(server.get("version", "")) for server in servers}))
    return f"Linux {kernel or 'unknown'}, PostgreSQL {versions or 'unknown'}"
