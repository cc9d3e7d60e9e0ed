"""Looking at a campaign after each whole block, and what follows: it is stopped, or its next block may begin.

Until then no run of the next block is armed (Campaign.open_blocks): it would be measured, and counted, though the rule
had said that it is enough. A look is made once, in one transaction with what follows from it, and kept as it was seen.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Max, Min, Q

import stats
from apps.campaigns.design import steps
from apps.campaigns.design.stopping import Rule, read
from apps.campaigns.execution import halts
from apps.campaigns.models import Campaign, Run
from apps.results.models import Look, Measurement
from common.errors import PlanError
from common.wording import signed


def look_due() -> None:
    """Campaigns under way whose word got lost between the reading of a run and the look."""
    for campaign in Campaign.objects.filter(state__in=halts.GOING_ON).exclude(stop={}):
        look(campaign)


@transaction.atomic
def look(campaign: Campaign) -> Look | None:
    """Look where there is more than at the look before; else only let the next block begin when the last is through."""
    locked = Campaign.objects.select_for_update(of=("self",)).select_related("workload").get(pk=campaign.pk)
    rule = read(locked.stop, locked.factors, locked.repetitions)
    if rule is None or locked.state == Campaign.State.CANCELLED:
        return None
    whole = whole_blocks(locked)
    seen = _look(locked, rule, whole) if whole >= rule.least else None
    if locked.open_blocks is None:
        return seen
    if seen and seen.met and halts.stop_campaign(locked, _reason(seen, rule)):
        return seen
    if locked.open_blocks <= whole:
        Campaign.objects.filter(pk=locked.pk).update(open_blocks=whole + 1)
        halts.arm_hosts(locked)
    return seen


def whole_blocks(campaign: Campaign) -> int:
    """How many blocks, from the first on, have all their runs ended and read."""
    waits = ~Q(state=Run.State.ENDED) | Q(ingested_at=None)
    found = campaign.runs.aggregate(first=Min("block", filter=waits), last=Max("block"))
    through = found["last"] + 1 if found["last"] is not None else 0
    return through if found["first"] is None else int(found["first"])


def _look(campaign: Campaign, rule: Rule, whole: int) -> Look | None:
    before = [stats.Spent(one.blocks, one.alpha, one.alpha_90) for one in campaign.looks.order_by("number")]
    try:
        found = stats.look(
            _observations(campaign, rule, whole),
            rule.between,
            _metric(campaign),
            campaign.delta,
            spending=rule.spending,
            planned=campaign.repetitions,
            before=before,
        )
    except PlanError:
        return None  # a figure that has no ratio to others: the table says so, and all repetitions are run
    if found is None:
        return None
    return Look.objects.create(
        campaign=campaign,
        number=len(before) + 1,
        blocks=found.spent.blocks,
        planned=campaign.repetitions,
        alpha=found.spent.alpha,
        alpha_90=found.spent.alpha_90,
        nominal_p=found.nominal_p,
        found=_told(found.found),
        met=_met(rule, found.found),
    )


def _metric(campaign: Campaign) -> stats.Metric:
    chosen = steps.metric(campaign.steps, campaign.metric)
    return stats.Metric(campaign.metric, chosen.unit, chosen.better)  # type: ignore[arg-type]


def _observations(campaign: Campaign, rule: Rule, whole: int) -> list[stats.Observation]:
    chosen = steps.metric(campaign.steps, campaign.metric)
    rows = Measurement.objects.filter(
        run__campaign=campaign, run__outcome=Run.Outcome.OK, run__block__lt=whole, step=chosen.step, name=chosen.name
    )
    found = []
    for row in rows.select_related("run").defer("run__spec", "run__manifest"):
        row.run.campaign = campaign
        found.append(stats.Observation(row.run.label, row.run.block, row.value, row.run.position))
    return [each for each in found if each.level in rule.between]


def _told(found: stats.Comparison | None) -> dict[str, Any] | None:
    if found is None or found.interval is None:
        return None
    low, high = found.interval
    told = {"a": found.a, "b": found.b, "ratio_percent": found.ratio_percent, "low": low, "high": high}
    told |= {"width": (high - low) / 100, "verdict": found.verdict, "preliminary": found.preliminary}
    return told | {"sentence": found.sentence(), "method": found.method}


def _met(rule: Rule, found: stats.Comparison | None) -> bool:
    if found is None or found.interval is None:
        return False
    if rule.until == "width":
        return (found.interval[1] - found.interval[0]) / 100 < rule.width
    return found.verdict in stats.CERTAIN


def _reason(seen: Look, rule: Rule) -> str:
    low, high = seen.found["low"], seen.found["high"]
    first, second = rule.between
    so = f"{second} against {first}, adjusted 95 % CI {signed(low)} to {signed(high)} %"
    what = "the CI is narrow enough" if rule.until == "width" else "the verdict is certain"
    return f"interim analysis {seen.number} of {seen.of}, after {seen.blocks} blocks: {what} ({so})"


def unplanned(campaign: Campaign, seen: Look | None) -> str:
    """Why the intervals must hold at any number of runs: somebody, or a rule about other levels, ended or extended it
    after its first results. "" where it ran as planned."""
    if any(each["seen"] for each in campaign.extensions):
        return "extended after its first results"
    if campaign.state == Campaign.State.CANCELLED and campaign.kind == Campaign.Kind.COMPARISON:
        return "cancelled before its planned end"
    if seen is None:
        return ""
    if seen.found is None:
        return "interim analysis without an interval"
    return "ended by its stop rule" if seen.met else ""


def newest(campaign: Campaign) -> Look | None:
    return campaign.looks.order_by("-number").first() if campaign.stop else None
