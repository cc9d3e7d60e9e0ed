"""A scan of the other main figures. It was not planned, so p values are adjusted for the number of figures."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from uuid import UUID

import stats
from agents.workloads import WORKLOADS
from apps.campaigns.design import steps
from apps.campaigns.models import Run
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.sentences import Judgement
from apps.results.models import Measurement
from common.wording import counted, first_of, percent
from stats.model import POINTS_ONLY_BELOW

FALSE_SHARE = 0.05
# A scan of more figures takes too long for a page; the summary has all of them.
MOST_RUNS = 1000
Figure = tuple[str, str, str]  # step, name, better


def scan(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield the changes of every other main figure, level by level against the baseline (Benjamini-Hochberg);
    nothing while the campaign runs, because p holds for one analysis only."""
    if len(judged.rows) > MOST_RUNS or judged.is_running:
        return
    comparisons = [
        comparison for figure, values in _figures(judged).items() for comparison in _compared(judged, figure, values)
    ]
    tested = [(comparison, comparison.p) for comparison in comparisons if comparison.p is not None]
    if not tested:
        return
    adjusted = stats.benjamini_hochberg([p for _, p in tested])
    differ = [one for (one, _), p in zip(tested, adjusted, strict=True) if p < FALSE_SHARE]
    shown = [
        f"{comparison.metric.label} at {comparison.b} {percent(comparison.ratio_percent)}" for comparison in differ
    ]
    differing = f"{len(shown)} of {counted(len(tested), 'comparison')} differ: {first_of(shown)}"
    which = differing if shown else f"none of {counted(len(tested), 'comparison')} differs"
    sentence = f"Other figures than {judged.table.metric}: {which} (Benjamini-Hochberg, 5 % false discoveries)."
    figures = [
        {"figure": comparison.metric.name, "level": comparison.b, "ratio_percent": comparison.ratio_percent}
        for comparison in differ
    ]
    yield Judgement("other figures", sentence, "note", {"comparisons": len(tested), "differ": figures})


def _figures(judged: JudgedCampaign) -> dict[Figure, dict[UUID, float]]:
    """Return those of the tools' main figures that every run has, and that have a ratio."""
    kinds = {step["name"]: WORKLOADS.get(step["kind"]) for step in steps.measured(judged.campaign.steps)}
    rows = Measurement.objects.filter(run__campaign=judged.campaign, run__outcome=Run.Outcome.OK).exclude(better="")
    figures: dict[Figure, dict[UUID, float]] = {}
    for step, name, better, run, value in rows.order_by("pk").values_list("step", "name", "better", "run_id", "value"):
        kind = kinds.get(step)
        if kind and kind.is_main(name) and (step, name) != (judged.chosen.step, judged.chosen.name):
            figures.setdefault((step, name, better), {})[run] = value
    runs = {point.run for level in judged.table.levels for point in level.points}
    return {key: own for key, own in figures.items() if runs <= own.keys() and all(0 < own[run] < inf for run in runs)}


def _compared(judged: JudgedCampaign, figure: Figure, values: dict[UUID, float]) -> list[stats.Comparison]:
    step, name, better = figure
    label = name if step == judged.chosen.step else f"{step} {name}"
    metric = stats.Metric(label, "", better)  # type: ignore[arg-type]  # one of the two
    rows, base = judged.observations(values), judged.table.baseline
    enough = {level.label for level in judged.table.levels if level.ok >= POINTS_ONLY_BELOW}
    others = [level.label for level in judged.others if {level.label, base} <= enough]
    return [stats.compare_levels(rows, base, label, metric, judged.campaign.delta) for label in others]
