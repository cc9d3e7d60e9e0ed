"""Several factors: the mean effect of each over the levels of the others, and interactions of two factors."""

from __future__ import annotations

from collections.abc import Iterator

import stats
from apps.campaigns.design import factors, orders
from apps.campaigns.design.factors import text_of
from apps.campaigns.models import Campaign
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.observations import starts_of
from apps.results.answers.sentences import Judgement
from common.errors import PlanError
from common.verdicts import Tone, verdict
from common.wording import and_of, counted


def effects(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield main effects and interactions of a full factorial, or why there are none."""
    varied = [factor["name"] for factor in judged.campaign.factors if len(factor["levels"]) > 1]
    if len(varied) < 2:
        return
    try:
        crossed = _crossed(judged)
    except PlanError as error:
        sentence = f"No interaction analysis of {and_of(varied)}: {error.message}."
        yield Judgement("interaction", sentence, "unknown", {"factors": varied})
        return
    if judged.is_running:
        sentence = f"Interactions of {and_of(varied)} are tested when the campaign has ended."
        yield Judgement("interaction", sentence, "unknown", {"factors": varied})
    else:
        yield from _interactions(judged, crossed)
    yield from _main_effects(judged, crossed)


def _crossed(judged: JudgedCampaign) -> stats.Crossed:
    """Return the crossed design. PlanError if the design, or its remaining runs, do not support an analysis of
    several factors."""
    levels = {factor["name"]: [level["label"] for level in factor["levels"]] for factor in judged.campaign.factors}
    known = {level.label for level in judged.table.levels}
    names = {text_of(cell): tuple(level.label for level in cell.values()) for cell in judged.design}
    cells = {label: cell for label, cell in names.items() if label in known}
    return stats.crossed(levels, cells, judged.rows, _plots(judged.campaign))


def _plots(campaign: Campaign) -> frozenset[str]:
    """Return the factors that need a new boot, cluster or server start, if runs share one."""
    if not starts_of(campaign):
        return frozenset()
    plots = orders.whole_plots(factors.read(campaign.factors), campaign.target, campaign.reboot)
    return frozenset(factor.name for factor in plots)


def _interactions(judged: JudgedCampaign, crossed: stats.Crossed) -> Iterator[Judgement]:
    left = f" Excludes {counted(crossed.left_out, 'run')} of incomplete blocks." if crossed.left_out else ""
    for interaction in stats.interactions(crossed, judged.campaign.delta):
        names = ("factors", "a_levels", "b_levels", "effects_percent", "ratio_percent", "interval", "p", "contrasts")
        figures = {name: getattr(interaction, name) for name in names}
        tone: Tone = "equivalent" if interaction.alone else "warning" if interaction.significant else "unknown"
        yield Judgement("interaction", interaction.sentence() + left, tone, figures)


def _main_effects(judged: JudgedCampaign, crossed: stats.Crossed) -> Iterator[Judgement]:
    for name, planned in stats.main_effects(crossed, judged.metric, judged.campaign.delta):
        one = judged.adjusted(planned)
        others = and_of([other for other, labels in crossed.levels.items() if other != name and len(labels) > 1])
        figures = {"factor": name, "from": one.a, "to": one.b, "ratio_percent": one.ratio_percent}
        figures |= {"interval": one.interval, "verdict": one.verdict, "mde_percent": one.mde_percent}
        sentence = f"{name}, averaged over {others}: {one.sentence()}"
        yield Judgement("main effect", sentence, verdict(one.verdict).tone, figures)
