"""The findings of a campaign as sentences; the same for page, API, CLI and report. Only reads (SELECT).

Comparisons are those of the table, never computed in another way. Findings also state what the data do not support."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apps.campaigns.models import Campaign
from apps.results import queries
from apps.results.answers.judgements import (
    certainty,
    changes,
    effects,
    latency,
    levels,
    neighbours,
    others,
    runs,
    twins,
)
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.sentences import Judgement
from apps.results.answers.table import CampaignTable

TOPICS: tuple[Callable[[JudgedCampaign], Iterable[Judgement]], ...] = (
    runs.other_data,
    latency.at_fixed_rate,
    levels.too_few,
    levels.comparisons,
    levels.failures,
    levels.cpu,
    changes.changed,
    levels.modes,
    levels.best,
    effects.effects,
    latency.latency,
    certainty.noise,
    certainty.sensitivity,
    certainty.needed,
    certainty.order_trend,
    runs.stability,
    runs.failed,
    runs.zeros,
    runs.unlike,
    neighbours.noisy,
    twins.fidelity,
    levels.many,
    others.scan,
    latency.loops,
)


def judgements(campaign: Campaign, table: CampaignTable | None = None, host: int | None = None) -> list[Judgement]:
    """Return the findings by topic, the answer first.

    `table`: of the campaign (on this host), with the points of its runs, if the caller has it. At most ten queries
    in addition to those of the table, for any number of runs."""
    if campaign.kind == Campaign.Kind.PREPARATION or not campaign.metric:
        return []
    if table is None or not any(level.points for level in table.levels):
        table = queries.campaign_table(campaign, host)
    judged = JudgedCampaign(campaign, table, host)
    if not judged.rows:
        nothing = Judgement("data", judged.table.sentence, "unknown")
        return [nothing, *latency.at_fixed_rate(judged), *runs.failed(judged), *runs.zeros(judged)]
    return [finding for topic in TOPICS for finding in topic(judged)]
