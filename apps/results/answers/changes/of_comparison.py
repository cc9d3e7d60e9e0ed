"""Changes with each side of a comparison against the first. Only reads (SELECT)."""

from __future__ import annotations

import msgspec
import orjson

from apps.campaigns.design import steps
from apps.results.answers.changes.answer import ChangedLevel, Changes, changes
from apps.results.answers.changes.observed import PlacedRun
from apps.results.answers.comparison.compare import Compared
from apps.results.answers.comparison.sides import LETTERS, Arm
from apps.results.store.campaign_cache import CampaignCache
from common.wording import percent

APART = "Other figures are compared only between levels of one campaign on one host."


def comparison_changes(compared: Compared) -> Changes:
    """Return the changes, cached with the campaign of all sides. Sides of several campaigns or hosts only have a
    note why nothing is compared."""
    if not compared.paired:
        return Changes(LETTERS[0], note=APART)
    query = f"changes {orjson.dumps(compared.query()).decode()}"
    cached = CampaignCache(compared.arms[0].runs[0].campaign).cached_query(query, lambda: _changes(compared))
    return msgspec.json.decode(cached, type=Changes)


def _changes(compared: Compared) -> Changes:
    places = [PlacedRun(run.pk, arm.title, run.block, run.position) for arm in compared.arms for run, _ in arm.measured]
    step, _, metric = compared.figure.partition(".")
    subjects = [_subject(compared, place, arm) for place, arm in enumerate(compared.arms)]
    campaign = compared.arms[0].runs[0].campaign
    return changes(steps.measured(campaign.steps), step, places, subjects, metric)


def _subject(compared: Compared, place: int, arm: Arm) -> ChangedLevel:
    """Return the side with the settings that differ between the sides."""
    against = {
        comparison.b: f"{comparison.metric.label} {percent(comparison.ratio_percent)}"
        for comparison in compared.comparisons
    }
    settings = {row.path: row.values[place] for row in compared.differences}
    return ChangedLevel(arm.title, arm.title, LETTERS[place], settings, against.get(arm.title, ""))
