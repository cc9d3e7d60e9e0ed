"""Levels against the baseline: the verdicts of the table, which is best, and how many comparisons there were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import stats
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.sentences import Judgement
from apps.results.answers.table import LevelRow
from common.verdicts import verdict
from common.wording import first_of, percent, signed, unsigned
from stats.model import POINTS_ONLY_BELOW, PRELIMINARY_BELOW

# A comparison of the best two asks for a range of all levels, whose tables end at about so many.
MOST_RANKED = 20


def too_few(judged: JudgedCampaign) -> Iterator[Judgement]:
    """How many runs there are of each level where they are too few for a verdict."""
    counts = {level.label: level.ok for level in judged.table.levels}
    few = [f"{_name(level)} has {level.ok}" for level in judged.table.levels if level.ok < POINTS_ONLY_BELOW]
    least = min(counts.values())
    if few:
        sentence = f"Some levels have too few runs: {first_of(few)}. A comparison needs {POINTS_ONLY_BELOW} of each."
        yield Judgement("data", sentence, "unknown", {"runs": counts})
    elif least < PRELIMINARY_BELOW:
        sentence = f"Preliminary: a verdict needs {PRELIMINARY_BELOW} runs of each level. The fewest so far: {least}."
        yield Judgement("data", sentence, "unknown", {"runs": counts})


def comparisons(judged: JudgedCampaign) -> Iterator[Judgement]:
    for level in judged.others:
        if level.sentence:
            yield Judgement("comparison", level.sentence, verdict(level.verdict).tone, _figures(level))


def failures(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Levels whose transactions or runs fail more often than the baseline's; all runs of a level may have failed."""
    for level in judged.table.levels:
        if level.failures and level.label != judged.table.baseline:
            figures = {"level": level.label, "failed_percent": level.failed_percent}
            yield Judgement("failures", level.failures, "warning", figures)


def cpu(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Levels whose CPU time per transaction differs although the metric does not."""
    for level in judged.others:
        if level.cpu:
            yield Judgement("cpu", level.cpu, "note", {"level": level.label})


def _name(level: LevelRow) -> str:
    """As the table calls it, such as "clients=8, shared_buffers=256MB"."""
    return level.name or level.label


def _figures(level: LevelRow) -> dict[str, Any]:
    names = ("relative_percent", "relative_low", "relative_high", "verdict", "preliminary", "method")
    return {"level": level.label, **{name: getattr(level, name) for name in names}}


def modes(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Whether runs have two modes or heavy tails, and that levels are then compared by ranks."""
    by_ranks, of_runs = judged.table.by_ranks, judged.table.modes
    ranks = " Levels are compared by ranks, so extreme runs count little." if by_ranks else ""
    if of_runs:
        lower, upper = of_runs["lower"], of_runs["upper"]
        size = f"{unsigned(abs(of_runs['percent']))} %"
        modes = f"in {lower} of {lower + upper} runs, {judged.metric.label} is about {size} lower than in the others"
        yield Judgement("modes", f"Two modes: {modes}.{ranks}", "warning", {**of_runs, "by_ranks": by_ranks})
    elif by_ranks:
        yield Judgement("modes", f"The runs have heavy tails.{ranks}", "note", {"by_ranks": by_ranks})


def best(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Whether the best of several is any better than the one after it."""
    measured = [level for level in judged.table.levels if level.mean is not None]
    if not 3 <= len(measured) <= MOST_RANKED or min(level.ok for level in measured) < POINTS_ONLY_BELOW:
        return
    by_label = {level.label: level for level in measured}
    ranked = [by_label[label] for label in stats.best_first(judged.rows, judged.metric)]
    if not ranked:
        return
    pair = (ranked[1].label, ranked[0].label)
    delta, starts = judged.campaign.delta, judged.table.starts
    comparison = judged.adjusted(stats.pair_of_all(judged.rows, *pair, judged.metric, delta, starts))
    first, second = _name(ranked[0]), _name(ranked[1])
    if comparison.interval is None:
        return
    low, high = comparison.interval
    size = f"{percent(comparison.ratio_percent)} (95 % CI {signed(low)} to {signed(high)} %) against {second}"
    labels = {"best": ranked[0].label, "second": ranked[1].label}
    figures = labels | {"ratio_percent": comparison.ratio_percent, "low": low, "high": high}
    again = f"Confirm it in a separate campaign: the best of {len(measured)} is overestimated."
    if low * high > 0:
        yield Judgement("best", f"{first} is the best of {len(measured)} levels: {size}. {again}", "note", figures)
    else:
        leads = "ranks first" if comparison.by_ranks else "has the best mean"
        sentence = f"{first} {leads} but is not clearly ahead: {size}. {again}"
        yield Judgement("best", sentence, "unknown", figures)


def many(judged: JudgedCampaign) -> Iterator[Judgement]:
    """How often one of several comparisons is wrong."""
    bounded = [level for level in judged.others if level.relative_low is not None]
    if len(bounded) < 2:
        return
    baseline = next((_name(each) for each in judged.table.levels if each.label == judged.table.baseline), "")
    named = (name for name in ("Dunnett", "Bonferroni") if any(name in level.method for level in bounded))
    by = "Steel" if judged.table.by_ranks else next(named, "max-t")
    sentence = (
        f"{len(bounded)} planned comparisons with {baseline}: the intervals hold jointly at 95 % ({by}). "
        "Test any other pattern in a new campaign."
    )
    yield Judgement("many comparisons", sentence, "note", {"comparisons": len(bounded)})
