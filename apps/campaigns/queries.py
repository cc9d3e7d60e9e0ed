"""SELECT only: how far a campaign is."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from django.db.models import Aggregate, Count, DurationField, ExpressionWrapper, F, FloatField, Q
from django.db.models.functions import Extract

from apps.campaigns import plan
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host

NOT_OK = (Run.Outcome.FAILED, Run.Outcome.INTERRUPTED, Run.Outcome.NOT_IN_EFFECT)


@dataclass(frozen=True)
class Progress:
    """Runs of a campaign: `done` have ended; of these `failed` neither ok nor cancelled, and `read` into results.

    `eta_s`: about how many seconds are left; None before the start.
    """

    done: int
    total: int
    running: int
    failed: int
    read: int
    eta_s: float | None


class Median(Aggregate):
    function = "PERCENTILE_CONT"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


def restart_seconds(host: Host) -> float | None:
    """How long the host took to restart of late, as its runs measured it (median); None when it never did."""
    ended = Run.objects.filter(host=host, manifest__timings__has_key="REBOOTING").order_by("-ended_at")
    took = list(ended.values_list("manifest__timings__REBOOTING", flat=True)[:20])
    return median(took) if took else None


def progress(campaign: Campaign) -> Progress:
    """One query; a second one for the planned seconds while no run has ended that could tell its wall time."""
    ended = Q(state=Run.State.ENDED)
    wall = ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField())
    counted = campaign.runs.aggregate(
        total=Count("pk"),
        done=Count("pk", filter=ended),
        running=Count("pk", filter=Q(state__in=[Run.State.SUBMITTING, Run.State.RUNNING])),
        failed=Count("pk", filter=Q(outcome__in=NOT_OK)),
        read=Count("ingested_at"),
        wall_s=Median(Extract(wall, "epoch"), filter=ended & Q(started_at__isnull=False)),
    )
    wall_s, left = counted.pop("wall_s"), counted["total"] - counted["done"]
    if not counted["total"]:
        eta_s = None
    elif not left:
        eta_s = 0.0
    else:
        eta_s = _planned_seconds(campaign) if wall_s is None else left * wall_s
    return Progress(**counted, eta_s=eta_s)


def _planned_seconds(campaign: Campaign) -> float:
    """What the plan says of the runs that have not ended, read once per distinct spec."""
    open_runs = campaign.runs.exclude(state=Run.State.ENDED).order_by()
    specs = open_runs.values("spec").annotate(count=Count("pk")).values_list("spec", "count")
    return sum(count * plan.seconds(spec) for spec, count in specs)
