"""SELECT only: the twins that the sides of a comparison run, and how much they resemble production."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from apps.campaigns.models import Run, Twin
from apps.campaigns.twins.services import twins_of
from apps.results.answers.comparison.differences import campaigns_in
from apps.results.answers.comparison.sides import Arm
from apps.results.runs.fidelity import Lowest, lowest_of


def fidelities(arms: Sequence[Arm]) -> dict[str, Lowest]:
    """Title of a side that runs a twin -> the lowest fidelity of its runs."""
    twins = twins_of(campaigns_in(arm.runs for arm in arms).values())
    return {arm.title: lowest for arm in arms if (lowest := _lowest(arm, twins))}


def weaker(a: Lowest | None, b: Lowest | None) -> Lowest | None:
    """The fidelity of a comparison of both: unknown if one is, else the lower; None if neither side runs a twin."""
    known = [each for each in (a, b) if each]
    return min(known, key=lambda each: -1.0 if each.value is None else each.value, default=None)


def _lowest(arm: Arm, twins: dict[UUID, Twin]) -> Lowest | None:
    """Over all twins of a side: a campaign and its clone may run two revisions."""
    result = None
    for twin in {each.pk: each for run in arm.runs if (each := twins.get(run.campaign_id))}.values():
        campaigns = [campaign for campaign, each in twins.items() if each.pk == twin.pk]
        own_runs = [run.pk for run in arm.runs if run.campaign_id in campaigns]
        result = weaker(result, lowest_of(twin, Run.objects.filter(pk__in=own_runs).order_by("-ended_at", "-position")))
    return result
