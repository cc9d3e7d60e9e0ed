"""SELECT only: trials of earlier searches from which a new one can learn."""

from __future__ import annotations

from typing import Any

from apps.campaigns.models import Campaign
from apps.searches import rounds
from apps.searches.models import Search, Trial
from apps.searches.space import Space, Values

SAME = ("host", "workload", "dataset", "profile", "metric", "target", "placement", "roles")
LEARNED = (Trial.State.MEASURED, Trial.State.UNSTABLE, Trial.State.FAILED, Trial.State.NOT_IN_EFFECT)
MOST = 200  # the newest


def comparable(campaign: Campaign, space: Space) -> list[dict[str, Any]]:
    """[{"search", "trial", "values", "log_ratio", "is_bad"}] of ended searches with the same host, workload, data set,
    profile, metric and default. Every value of a trial is in the ranges of `space`. Three queries."""
    if campaign.placement != Campaign.Placement.ONE:
        return []
    same = {f"campaign__{name}": getattr(campaign, name) for name in SAME}
    ended = Search.objects.filter(**same, state__in=(Search.State.FINISHED, Search.State.STOPPED))
    default = rounds.default_level(campaign)
    searches = [each for each in ended.select_related("campaign") if rounds.default_level(each.campaign) == default]
    trials = Trial.objects.filter(search__in=searches, state__in=LEARNED).order_by("-search__created_at", "-number")
    return [
        {
            "search": str(each.search_id),
            "trial": each.number,
            "values": each.values,
            "log_ratio": each.log_ratio,
            "is_bad": each.is_bad,
        }
        for each in trials
        if _fits(each.values, space)
    ][:MOST]


def _fits(values: Values, space: Space) -> bool:
    """Whether the space varies all of these settings, and their values are in its ranges."""
    known = {each.name: each for each in space.dimensions}
    return all(name in known and known[name].accepts(value) for name, value in values.items())
