"""SELECT only: what changed with each side of a comparison against the first."""

from __future__ import annotations

from typing import cast

import orjson

from apps.campaigns.design import steps
from apps.results.answers.changes.answer import Changes, Subject, changes
from apps.results.answers.changes.observations import Place
from apps.results.answers.comparison.compare import Compared
from apps.results.answers.comparison.sides import LETTERS, Arm
from apps.results.store.answer_cache import revived
from apps.results.store.campaign_cache import Keeper
from common.wording import percent

APART = "Other figures are compared only between levels of one campaign on one host."


def comparison_changes(found: Compared) -> Changes:
    """Cached with the campaign of all sides. For sides of several campaigns or hosts, only a note says why not."""
    if not found.paired:
        return Changes(LETTERS[0], note=APART)
    query = f"changes {orjson.dumps(found.query()).decode()}"
    cached = Keeper(found.arms[0].runs[0].campaign).asked(query, lambda: _changes(found))
    return cast(Changes, revived(Changes, orjson.loads(cached)))


def _changes(found: Compared) -> Changes:
    places = [
        Place(run.pk, arm.title, run.block, run.position)
        for arm in found.arms
        for run in arm.runs
        if run.pk in arm.values
    ]
    step, _, metric = found.figure.partition(".")
    subjects = [_subject(found, place, arm) for place, arm in enumerate(found.arms)]
    campaign = found.arms[0].runs[0].campaign
    return changes(steps.measured(campaign.steps), step, places, subjects, metric)


def _subject(found: Compared, place: int, arm: Arm) -> Subject:
    """The settings of a side are those that differ between the sides."""
    against = {one.b: f"{one.metric.label} {percent(one.ratio_percent)}" for one in found.comparisons}
    settings = {row.path: row.values[place] for row in found.differences}
    return Subject(arm.title, arm.title, LETTERS[place], settings, against.get(arm.title, ""))
