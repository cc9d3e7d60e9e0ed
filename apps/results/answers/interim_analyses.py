"""Interim analyses of a campaign after each whole block, and what follows: it is stopped, or its next block may begin.

Until then no run of the next block is armed (Campaign.open_blocks): it would be measured, and counted, though the rule
had been met. An analysis is made once, in one transaction with what follows from it, and is stored unchanged.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Max, Min, Q

import stats
from apps.campaigns.design import orders, steps
from apps.campaigns.design.stopping import Rule, read
from apps.campaigns.execution import halts
from apps.campaigns.models import Campaign, Run
from apps.infrastructure import faults
from apps.results.answers.observations import MeasuredRun, observations
from apps.results.models import InterimAnalysis, Measurement
from common.errors import PlanError
from common.verdicts import verdict
from common.wording import signed

RUNNING = "read while it runs"
PRELIMINARY = "The campaign has not ended, so its results are preliminary."
WIDER = "95 % CIs are wider: they hold however often you read them."
NOT_ENDED = f"{PRELIMINARY} Its {WIDER}"


def run_due_analyses() -> None:
    """Analyse active campaigns whose task was lost after a run was read."""
    for campaign in Campaign.objects.filter(state__in=halts.GOING_ON).exclude(stop={}):
        with faults.apart(f"interim analysis of campaign {campaign.pk}"):
            analyse(campaign)


@transaction.atomic
def analyse(campaign: Campaign) -> InterimAnalysis | None:
    """Analyse if there are more blocks than at the last analysis; else only release the next block after the last."""
    locked = Campaign.objects.select_for_update(of=("self",)).select_related("workload").get(pk=campaign.pk)
    rule = read(locked.stop, locked.factors, locked.repetitions)
    if rule is None or locked.state == Campaign.State.CANCELLED:
        return None
    whole = count_whole_blocks(locked)
    analysis = _analyse(locked, rule, whole) if whole >= rule.least else None
    if locked.open_blocks is None:
        return analysis
    if analysis and analysis.met and halts.stop_campaign(locked, _reason(analysis, rule)):
        return analysis
    if locked.open_blocks <= whole:
        Campaign.objects.filter(pk=locked.pk).update(open_blocks=whole + 1)
        halts.arm_hosts(locked)
    return analysis


def count_whole_blocks(campaign: Campaign) -> int:
    """How many blocks, from the first on, have all their runs ended and read."""
    waits = ~Q(state=Run.State.ENDED) | Q(ingested_at=None)
    blocks = campaign.runs.aggregate(first=Min("block", filter=waits), last=Max("block"))
    through = blocks["last"] + 1 if blocks["last"] is not None else 0
    return through if blocks["first"] is None else int(blocks["first"])


def _analyse(campaign: Campaign, rule: Rule, whole: int) -> InterimAnalysis | None:
    before = [stats.Spent(one.blocks, one.alpha, one.alpha_90) for one in campaign.interim_analyses.order_by("number")]
    try:
        analysis = stats.interim_analysis(
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
    if analysis is None:
        return None
    comparison = analysis.comparison
    if comparison:
        comparison = comparison.with_caveat(
            orders.not_included(campaign.order, campaign.factors, campaign.target, campaign.reboot)
        )
    return InterimAnalysis.objects.create(
        campaign=campaign,
        number=len(before) + 1,
        blocks=analysis.spent.blocks,
        planned=campaign.repetitions,
        alpha=analysis.spent.alpha,
        alpha_90=analysis.spent.alpha_90,
        nominal_p=analysis.nominal_p,
        comparison=as_json(comparison),
        met=_met(rule, comparison),
    )


def _metric(campaign: Campaign) -> stats.Metric:
    chosen = steps.metric(campaign.steps, campaign.compared)
    return stats.Metric(campaign.compared, chosen.unit, chosen.better)  # type: ignore[arg-type]


def _observations(campaign: Campaign, rule: Rule, whole: int) -> list[stats.Observation]:
    chosen = steps.metric(campaign.steps, campaign.compared)
    rows = Measurement.objects.filter(
        run__campaign=campaign,
        run__outcome=Run.Outcome.OK,
        run__block__lt=whole,
        run__retry_of=None,  # a retried run ran later than its block
        step=chosen.step,
        name=chosen.name,
    )
    measured = []
    for row in rows.select_related("run").defer("run__spec", "run__manifest"):
        row.run.campaign = campaign
        measured.append(MeasuredRun(row.run.label, row.value, row.run.block, row.run.position))
    return observations([run for run in measured if run.level in rule.between])


def as_json(comparison: stats.Comparison | None) -> dict[str, Any] | None:
    if comparison is None or comparison.interval is None:
        return None
    low, high = comparison.interval
    fields = {"a": comparison.a, "b": comparison.b, "ratio_percent": comparison.ratio_percent, "low": low, "high": high}
    fields |= {"metric": comparison.metric.name}
    fields |= {"width": (high - low) / 100, "verdict": comparison.verdict, "preliminary": comparison.preliminary}
    return fields | {"sentence": comparison.sentence(), "method": comparison.method}


def _met(rule: Rule, comparison: stats.Comparison | None) -> bool:
    if comparison is None or comparison.interval is None:
        return False
    if rule.until == "width":
        return (comparison.interval[1] - comparison.interval[0]) / 100 < rule.width
    return verdict(comparison.verdict).is_certain


def _reason(analysis: InterimAnalysis, rule: Rule) -> str:
    low, high = analysis.comparison["low"], analysis.comparison["high"]
    first, second = rule.between
    so = f"{second} against {first}, adjusted 95 % CI {signed(low)} to {signed(high)} %"
    what = "the CI is narrow enough" if rule.until == "width" else "the verdict is certain"
    return f"interim analysis {analysis.number} of {analysis.of}, after {analysis.blocks} blocks: {what} ({so})"


def is_running(campaign: Campaign) -> bool:
    """Return whether a comparison has not reached its planned end, so that its results are read more than once."""
    return campaign.kind == Campaign.Kind.COMPARISON and campaign.state in halts.GOING_ON


def unplanned(campaign: Campaign, analysis: InterimAnalysis | None) -> str:
    """Return why the intervals must hold at any number of runs: the campaign is still running, or a user, or a rule
    about other levels, ended or extended it after its first results. "" if it ran as planned."""
    if is_running(campaign):
        return RUNNING
    if any(extension["seen"] for extension in campaign.extensions):
        return "extended after its first results"
    if campaign.state == Campaign.State.CANCELLED and campaign.kind == Campaign.Kind.COMPARISON:
        return "cancelled before its planned end"
    if analysis is None:
        return ""
    if analysis.comparison is None:
        return "interim analysis without an interval"
    return "ended by its stop rule" if analysis.met else ""


def adjusted(comparison: stats.Comparison, why: str) -> stats.Comparison:
    """Return the comparison with intervals that hold at any number of runs if there is a reason, as unplanned() has
    it."""
    return stats.at_unplanned_analysis(comparison, is_live=why == RUNNING) if why else comparison


def newest(campaign: Campaign) -> InterimAnalysis | None:
    """Return the newest interim analysis of the figure that is compared."""
    analysis = campaign.interim_analyses.order_by("-number").first() if campaign.stop else None
    comparison = analysis.comparison if analysis else None
    is_other = comparison and comparison.get("metric", campaign.metric) != campaign.compared
    return None if is_other else analysis
