"""SELECT only: two or more sets of runs side by side: what the figures carry, what was set, and what else differed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from django.db.models import Avg, F
from django.http import QueryDict

import stats
from apps.campaigns.design import fixed_rate, orders, steps
from apps.campaigns.models import Campaign, Run
from apps.results.answers import interim_analyses
from apps.results.answers.comparison import differences, twins
from apps.results.answers.comparison.between_campaigns import Days, campaigns_of, days_of
from apps.results.answers.comparison.differences import Difference
from apps.results.answers.comparison.failing import failing
from apps.results.answers.comparison.sides import (
    KINDS,
    LEAST,
    MOST,
    WIDE,
    Arm,
    What,
    Wide,
    choose_level,
    common,
    describe_level,
    name_of,
    read_side,
    with_counts,
    with_distinct_titles,
    with_runs,
)
from apps.results.answers.hosts import retries_of
from apps.results.answers.margins import margin_of
from apps.results.answers.observations import MeasuredRun, joint_observations, separate_observations, starts_of
from apps.results.models import Measurement
from apps.results.runs.fidelity import Lowest
from common.errors import PlanError
from common.verdicts import verdict
from common.wording import and_of, ci_of_mean, counted

ENOUGH = 50  # runs from which the duration of one is estimated


@dataclass(frozen=True)
class Compared:
    """`whats`: the levels that all `wide` sides share, as (value for an address, name, fewest runs); `days`: the
    variation between campaigns, if the sides are of several; `fidelities`: title of a side that runs a twin -> its
    fidelity; `unplanned_analysis`: why the intervals hold at any number of runs, or "";
    `within_blocks`: the intervals of means include the variation within blocks only."""

    arms: list[Arm]
    figure: str
    unit: str
    better: str
    delta: float
    figures: list[str]
    wide: list[Wide]
    whats: list[tuple[str, str, int]]
    what: str
    comparisons: list[stats.Comparison]
    paired: bool
    differences: list[Difference]
    unplanned: list[Difference]
    warnings: list[str]
    more: list[str]
    days: Days | None = None
    fidelities: dict[str, Lowest] = field(default_factory=dict)
    unplanned_analysis: str = ""
    within_blocks: bool = False

    @property
    def ci_of_mean(self) -> str:
        """The heading of the intervals of means."""
        return ci_of_mean(self.within_blocks)

    @property
    def sentence(self) -> str:
        return " ".join(comparison.sentence() for comparison in self.comparisons)

    def fidelity(self, one: stats.Comparison) -> Lowest | None:
        """The lower fidelity of the two sides of a comparison; None if neither runs a twin."""
        return twins.weaker(self.fidelities.get(one.a), self.fidelities.get(one.b))

    @property
    def badged_comparisons(self) -> list[tuple[stats.Comparison, str]]:
        """Each comparison, with the badge of its fidelity, or ""."""
        fidelities = [self.fidelity(comparison) for comparison in self.comparisons]
        return [(one, each.badge if each else "") for one, each in zip(self.comparisons, fidelities, strict=True)]

    def query(self) -> dict[str, Any]:
        """As an address has it, with what it left open."""
        query = {"of": [arm.key for arm in self.arms], "figure": self.figure, "delta": f"{100 * self.delta:g}"}
        return query | ({"what": self.what} if self.what else {})


def read(query: QueryDict) -> Compared:
    """The comparison of an address."""
    margin = _margin(query.get("delta", ""))
    return compare(query.getlist("of"), query.get("what", ""), query.get("figure", ""), margin)


def _margin(percentage: str) -> float | None:
    """A margin as a share, from a percentage; None for "", so that the figure and the first campaign decide."""
    if not percentage:
        return None
    try:
        value = float(percentage) / 100
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise PlanError(
            "delta", f"{percentage!r} is not a margin", hint="accepted: a percentage between 0 and 100, such as 2"
        )
    return value


def compare(addresses: Sequence[str], what: str = "", figure: str = "", delta: float | None = None) -> Compared:
    """A comparison of the items that the addresses name; the first is the baseline. PlanError for an unknown item."""
    keys = list(dict.fromkeys(addresses))
    if not LEAST <= len(keys) <= MOST:
        hint = f"choose {LEAST} to {MOST} of: {', '.join(KINDS.values())}"
        raise PlanError("of", f"{counted(len(keys), 'item')} cannot be compared", hint=hint)
    sides = with_distinct_titles([read_side(key) for key in keys])
    wide = with_counts([arm for arm in sides if arm.kind in WIDE])
    whats = common(wide)
    chosen = choose_level(whats, what)
    arms = with_runs(sides, chosen)
    first = arms[0].runs[0].campaign
    figures = _figures(arms)
    name = figure or _usual(first, figures)
    if name not in figures:
        raise PlanError(
            "figure", f"some of the items do not have {name!r}", hint="accepted: " + (", ".join(figures) or "none")
        )
    margin = margin_of(name.partition(".")[2], first) if delta is None else delta
    return _compared(arms, name, figures, wide, chosen, margin)


def _figures(arms: Sequence[Arm]) -> list[str]:
    """What a run of every side has."""
    names: list[dict[str, None]] = []
    for arm in arms:
        rows = Measurement.objects.filter(run=arm.runs[-1].pk).order_by("pk").values_list("step", "name")
        names.append(dict.fromkeys(f"{step}.{name}" for step, name in rows))
    return [name for name in names[0] if all(name in each for each in names[1:])]


def _usual(campaign: Campaign, figures: Sequence[str]) -> str:
    """The metric of the first side's campaign, or what all have."""
    chosen = steps.metric(campaign.steps, campaign.compared) if campaign.metric else None
    name = f"{chosen.step}.{chosen.name}" if chosen else ""
    return name if name in figures or not figures else figures[0]


def _compared(
    arms: Sequence[Arm], name: str, figures: list[str], wide: list[Wide], what: What | None, delta: float
) -> Compared:
    step, _, measured = name.partition(".")
    kind, filled = _measured(arms, step, measured)
    rows, paired = _observations(filled)
    days = days_of(filled, step, measured) if kind.better else None
    why = _why_unplanned(filled)
    compared = _comparisons(filled, rows, kind, delta, days)
    comparisons = _as_run(filled, [adjusted(comparison, why, days) for comparison in compared])
    table = stats.level_table(rows) if all(row.value > 0 for row in rows) else None
    levels = {level.level: level for level in table.levels} if table else {}
    shown = [_with_mean(arm, levels.get(arm.title)) for arm in filled]
    sides, first = [arm.runs for arm in shown], shown[0].runs[0].campaign
    unplanned, warnings = differences.of_hosts(sides, [arm.title for arm in shown])
    fidelities = twins.fidelities(shown)
    return Compared(
        arms=shown,
        figure=name,
        unit=kind.unit,
        better=kind.better,
        delta=delta,
        figures=figures,
        wide=wide,
        whats=[(name_of(each), describe_level(each, first), fewest) for each, fewest in common(wide).items()],
        what=name_of(what) if what else "",
        comparisons=comparisons,
        paired=paired,
        differences=differences.of_settings(sides),
        unplanned=unplanned,
        warnings=[
            *_of_fixed_rate(shown, name),
            *_not_ended(shown, days),
            *failing(shown, kind, delta),
            *warnings,
            *dict.fromkeys(fidelity.sentence for fidelity in fidelities.values() if not fidelity.is_trusted),
        ],
        more=_more(shown, comparisons),
        days=days,
        fidelities=fidelities,
        unplanned_analysis=why,
        within_blocks=table is not None and table.blocked,
    )


def adjusted(comparison: stats.Comparison, why: str, days: Days | None) -> stats.Comparison:
    """With an interval that holds at any number of runs if there is a reason. Campaigns without a history stay
    inconclusive."""
    if days and days.between is None:
        return replace(comparison, is_live=why == interim_analyses.RUNNING)
    return interim_analyses.adjusted(comparison, why)


def _not_ended(arms: Sequence[Arm], days: Days | None) -> list[str]:
    """A warning if a campaign has not reached its planned end. It names the running ones of several campaigns."""
    campaigns = differences.campaigns_in(arm.runs for arm in arms).values()
    running = [str(campaign) for campaign in campaigns if interim_analyses.is_running(campaign)]
    if not running:
        return []
    is_adjusted = days is None or days.between is not None
    if len(campaigns) == 1:
        return [interim_analyses.NOT_ENDED if is_adjusted else interim_analyses.PRELIMINARY]
    have = f"{and_of(running)} {'has' if len(running) == 1 else 'have'} not ended, so the comparison is preliminary."
    return [f"{have} The {interim_analyses.WIDER}" if is_adjusted else have]


def _of_fixed_rate(arms: Sequence[Arm], figure: str) -> list[str]:
    """A warning if all sides have a fixed rate and their throughputs are compared."""
    campaigns = differences.campaigns_in(arm.runs for arm in arms)
    instead = {campaign.compared_instead_of(figure) for campaign in campaigns.values()} - {figure}
    return [fixed_rate.only_shows(figure, instead.pop())] if len(instead) == 1 else []


def _measured(arms: Sequence[Arm], step: str, name: str) -> tuple[Measurement, list[Arm]]:
    known = Measurement.objects.filter(step=step, name=name).order_by()
    filled = []
    for arm in arms:
        of_runs = known.filter(run__in=arm.run_keys)
        values = {run: value for run, value in of_runs.values_list("run_id", "value") if math.isfinite(value)}
        measured = [(run, value) for run in arm.runs if (value := values.get(run.pk)) is not None]
        if not measured:
            raise PlanError("figure", f"no run of {arm.title} has {step}.{name}", hint="choose another figure")
        filled.append(replace(arm, measured=measured))
    return known.get(run=filled[0].measured[0][0].pk), filled


def _observations(arms: Sequence[Arm]) -> tuple[list[stats.Observation], bool]:
    """The observations to compare, and whether all are in blocks of one host. Sides of one campaign on the same hosts
    are compared as on its page: on one host in its blocks, on several by their means. Otherwise each run is a block."""
    measured = [(arm.title, run, value) for arm in arms for run, value in arm.measured]
    hosts = {run.host_id for _, run, _ in measured}
    if not _share_blocks(arms) or (len(hosts) > 1 and min(value for *_, value in measured) <= 0):
        alone = [MeasuredRun(title, value, run.block, run.position) for title, run, value in measured]
        return separate_observations(alone), False
    campaign = measured[0][1].campaign
    retries = retries_of(campaign.runs.filter(retry_of__isnull=False).only("pk", "retry_of"))
    rows = [
        MeasuredRun(title, value, run.block, run.position, run.host_id, retries.get(run.pk, 0))
        for title, run, value in measured
    ]
    together = joint_observations(rows, identical=campaign.placement == Campaign.Placement.SPREAD)
    if {row.level for row in together} != {arm.title for arm in arms}:
        hint = "retry the failed runs of the campaign, or compare fewer items"
        raise PlanError("of", "no block on a host has a run of each item", hint=hint)
    return together, len(hosts) == 1


def _share_blocks(arms: Sequence[Arm]) -> bool:
    """Whether all sides are of one campaign and have a host in common."""
    hosts = [{run.host_id for run, _ in arm.measured} for arm in arms]
    return len(campaigns_of(*arms)) == 1 and bool(set.intersection(*hosts))


def _comparisons(
    arms: Sequence[Arm], rows: list[stats.Observation], kind: Measurement, delta: float, days: Days | None
) -> list[stats.Comparison]:
    """Each against the first; several hold together (Dunnett, max-t or Bonferroni)."""
    if not kind.better or not all(row.value > 0 for row in rows):
        return []
    metric = stats.Metric(kind.name, kind.unit, kind.better)  # type: ignore[arg-type]  # the model's own words
    if days:
        return [_of_campaigns(arms[0], arm, days, metric, delta, len(arms) - 1) for arm in arms[1:]]
    if len(arms) == 2:
        return [stats.compare_levels(rows, arms[0].title, arms[1].title, metric, delta)]
    return stats.against_baseline(rows, arms[0].title, metric, delta, _starts(arms))


def _starts(arms: Sequence[Arm]) -> dict[str, list[int]]:
    """Title -> the starts of the server that levels of one campaign share."""
    starts = starts_of(arms[0].runs[0].campaign)
    labels = {arm.title: arm.key.split(":", 2)[2] for arm in arms if arm.kind == "level"} if starts else {}
    return {title: starts[label] for title, label in labels.items() if label in starts}


def _why_unplanned(arms: Sequence[Arm]) -> str:
    """Return why intervals must hold at any number of runs: a side is still running, or all sides are of one campaign
    that was analysed before its number of runs was final; "" otherwise."""
    campaigns = differences.campaigns_in(arm.runs for arm in arms)
    if any(interim_analyses.is_running(campaign) for campaign in campaigns.values()):
        return interim_analyses.RUNNING
    if len(campaigns) > 1:
        return ""
    [campaign] = campaigns.values()
    newest = interim_analyses.newest(campaign)
    return interim_analyses.unplanned(campaign, newest) or ("interim analysis" if newest else "")


def _as_run(arms: Sequence[Arm], comparisons: list[stats.Comparison]) -> list[stats.Comparison]:
    """With what the order of runs does not allow to include, if all sides are of one campaign."""
    campaigns = differences.campaigns_in(arm.runs for arm in arms)
    if len(campaigns) > 1:
        return comparisons
    [campaign] = campaigns.values()
    caveat = orders.not_included(campaign.order, campaign.factors, campaign.target, campaign.reboot)
    return [comparison.with_caveat(caveat) for comparison in comparisons]


def _of_campaigns(a: Arm, b: Arm, days: Days, metric: stats.Metric, delta: float, of: int) -> stats.Comparison:
    """Side b against a, where the sides are of several campaigns."""
    first, second = a.values, b.values
    names, counts = (a.title, b.title), (len(campaigns_of(a)), len(campaigns_of(b)))
    if len(campaigns_of(a, b)) == 1:
        return stats.compare(first, second, metric=metric, delta=delta, blocked=False, names=names, of=of)
    return stats.compare_campaigns(
        first, second, days.between, metric=metric, delta=delta, names=names, campaigns=counts, of=of
    )


def _with_mean(arm: Arm, level: stats.Level | None) -> Arm:
    if level is None:
        return replace(arm, mean=float(np.mean(arm.values)))
    low, high = level.interval or (None, None)
    return replace(arm, mean=level.mean, low=low, high=high)


def _more(arms: Sequence[Arm], comparisons: Sequence[stats.Comparison]) -> list[str]:
    """Runs still needed for a verdict, with the hours that they take on this workload."""
    ids = [run.pk for arm in arms for run in arm.runs]
    took = Run.objects.filter(pk__in=ids[:ENOUGH]).aggregate(each=Avg(F("ended_at") - F("started_at")))["each"]
    needs = []
    for comparison in comparisons:
        lacking = (comparison.runs_needed or 0) - comparison.n
        if not verdict(comparison.verdict).is_certain and lacking > 0:
            hours = f", about {2 * lacking * took.total_seconds() / 3600:,.1f} h" if took else ""
            need = f"Runs needed to detect {100 * comparison.delta:g} % (80 % power)"
            needs.append(f"{need}: {lacking:,} more of {comparison.a} and of {comparison.b}{hours}.")
    return needs
