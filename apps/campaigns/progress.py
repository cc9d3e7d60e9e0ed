"""SELECT only: how far a campaign is, and when it may end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Avg, Count, F, Q

from apps.campaigns import plan
from apps.campaigns.models import Campaign, Run, RunEvent

UNPLANNED = (Run.Outcome.FAILED, Run.Outcome.INTERRUPTED, Run.Outcome.NOT_IN_EFFECT)


@dataclass(frozen=True)
class Progress:
    """`seconds_left` is what the mean ended run took, times what is left; None once nothing is."""

    total: int
    ended: int
    ok: int
    failed: int
    seconds_left: float | None

    @property
    def share(self) -> float:
        return self.ended / self.total if self.total else 0.0


def of_campaign(campaign: Campaign) -> Progress:
    """Two queries at most."""
    counts = campaign.runs.aggregate(
        total=Count("pk"),
        ended=Count("pk", filter=Q(state=Run.State.ENDED)),
        ok=Count("pk", filter=Q(outcome=Run.Outcome.OK)),
        failed=Count("pk", filter=Q(outcome__in=UNPLANNED)),
        took=Avg(F("ended_at") - F("started_at"), filter=Q(outcome=Run.Outcome.OK)),
    )
    took, left = counts.pop("took"), counts["total"] - counts["ended"]
    if not left or campaign.state != Campaign.State.RUNNING:
        return Progress(**counts, seconds_left=None)
    each = took.total_seconds() if took else _planned(campaign)
    return Progress(**counts, seconds_left=left * each)


def _planned(campaign: Campaign) -> float:
    first = campaign.runs.values_list("spec", flat=True).first()
    return plan.seconds(first) if first else 0.0


@dataclass(frozen=True)
class Live:
    """The newest word of a run that is under way."""

    progress: dict[str, Any]
    values: dict[str, float]


def live(runs: Iterable[Run]) -> dict[UUID, Live]:
    """Two queries for any number of runs: the newest progress, and the newest sample of the load generator."""
    wanted = RunEvent.objects.filter(run__in=list(runs)).order_by("run", "-seq").distinct("run")
    done = dict(wanted.filter(kind="progress").values_list("run_id", "data"))
    samples = wanted.filter(kind="sample", data__values__has_any_keys=["tps", "iops"])
    values = {run: data["values"] for run, data in samples.values_list("run_id", "data")}
    return {run: Live(done.get(run, {}), values.get(run, {})) for run in done.keys() | values.keys()}
