"""What changed with each level: figures that differ from the baseline, and known mechanisms."""

from __future__ import annotations

from collections.abc import Iterator

from apps.results.answers.changes.of_campaign import campaign_changes
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.sentences import Judgement


def changed(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield the changes as findings; nothing if no collector ran."""
    yield from campaign_changes(judged.campaign, judged.table).judgements()
