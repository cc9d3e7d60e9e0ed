"""SELECT only: trials of earlier searches from which a new one can learn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from apps.campaigns.models import Campaign, Run
from apps.hosts.facts import changes
from apps.hosts.models import Facts
from apps.searches import budget, results, rounds
from apps.searches.models import Round, Search, Trial
from apps.searches.space import Space, Values
from common.wording import first_of

# Field of a campaign that must be the same -> its name.
SAME = {
    "workload": "workload",
    "dataset": "data set",
    "profile": "profile",
    "target": "cluster",
    "roles": "roles",
    "reboot": "restarts",
    "nuisance": "preparation of a run",
}
LEARNED = (Trial.State.MEASURED, Trial.State.UNSTABLE, Trial.State.FAILED, Trial.State.NOT_IN_EFFECT)
MOST = 200  # the newest
SEVERAL_HOSTS = "searches on several hosts"
OTHER = "another {}"
UNCHECKED = "not checked against the constraints"
BREAKS = "breaks a constraint of its own search"
OUTSIDE = "values outside of the ranges"
NO_FACTS = "no recorded facts of the host"
OLD = f"older than the newest {MOST}"


@dataclass(frozen=True)
class Earlier:
    """`trials`: [{"search", "trial", "values", "log_ratio", "second_log_ratio", "is_bad"}], newest first. `left_out`:
    why other trials are not used -> their number."""

    trials: list[dict[str, Any]]
    left_out: dict[str, int]


def comparable(campaign: Campaign, space: Space, constraints: Sequence[str], second_metric: str = "") -> Earlier:
    """Trials of ended searches with the same metric on the same host. At most seven queries."""
    states = (Search.State.FINISHED, Search.State.STOPPED)
    ended = Search.objects.filter(campaign__host=campaign.host, campaign__metric=campaign.metric, state__in=states)
    related = [f"campaign__{name}" for name in ("workload", "dataset", "profile")]
    searches = {search.pk: search for search in ended.select_related(*related)}
    of_search = {key: _difference(search, campaign, constraints, second_metric) for key, search in searches.items()}
    of_host = _host_changes(campaign, [key for key, reason in of_search.items() if not reason])
    rows = Trial.objects.filter(search__in=searches, state__in=(*LEARNED, Trial.State.BREAKS_LIMIT))
    used: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    for row in rows.order_by("-search__created_at", "-number"):
        reason = of_search[row.search_id] or _unfit(row, space) or of_host.get((row.search_id, row.label), NO_FACTS)
        reason = reason or (OLD if len(used) == MOST else "")
        if reason:
            left_out[reason] += 1
        else:
            used.append(_learned(row))
    return Earlier(used, dict(left_out))


def _learned(trial: Trial) -> dict[str, Any]:
    ratios = {name: getattr(trial, name) for name in ("log_ratio", "second_log_ratio")}
    figures = {"values": trial.values, **ratios, "is_bad": trial.is_bad}
    return {"search": str(trial.search_id), "trial": trial.number, **figures}


def _difference(search: Search, campaign: Campaign, constraints: Sequence[str], second_metric: str) -> str:
    """Why no trial of a search is comparable; "" if they can be."""
    if {search.campaign.placement, campaign.placement} != {Campaign.Placement.ONE}:
        return SEVERAL_HOSTS
    for field, name in SAME.items():
        if _content(getattr(search.campaign, field)) != _content(getattr(campaign, field)):
            return OTHER.format(name)
    if rounds.default_level(search.campaign) != rounds.default_level(campaign):
        return OTHER.format("default")
    if second_metric and search.second_metric != second_metric:
        return OTHER.format("second metric")
    return "" if set(constraints) <= set(search.constraints) else UNCHECKED


def _content(value: Any) -> Any:
    """The digest of a workload, a data set or a revision; any other value unchanged."""
    return getattr(value, "digest", value)


def _unfit(trial: Trial, space: Space) -> str:
    if trial.state == Trial.State.BREAKS_LIMIT:
        return BREAKS
    return "" if _fits(trial.values, space) else OUTSIDE


def _fits(values: Values, space: Space) -> bool:
    """Whether the space varies all of these settings, and their values are in its ranges."""
    known = {dimension.name: dimension for dimension in space.dimensions}
    return all(name in known and known[name].accepts(value) for name, value in values.items())


def _host_changes(campaign: Campaign, searches: Sequence[UUID]) -> Mapping[tuple[UUID, str], str]:
    """(search, label of a trial) -> why its runs are not comparable with runs on the host now; "" if they are."""
    of_rounds = Run.objects.filter(
        budget.COUNTED, campaign__search_round__search__in=searches, campaign__search_round__kind=Round.Kind.SEARCH
    )
    rows = set(of_rounds.order_by().values_list("campaign__search_round__search", f"cell__{results.FACTOR}", "facts"))
    known, now = Facts.objects.in_bulk({facts for *_, facts in rows if facts}), campaign.host.facts
    reasons = {key: _changed(facts.data, now) for key, facts in known.items()}
    of_trial: dict[tuple[UUID, str], str] = {}
    for search, label, facts in rows:
        reason = reasons.get(facts, NO_FACTS) if now else NO_FACTS
        of_trial[search, label] = of_trial.get((search, label), "") or reason
    return of_trial


def _changed(before: dict[str, Any], now: dict[str, Any]) -> str:
    paths = [change.path for change in changes.weighty(before, now)]
    return f"the host has changed: {first_of(paths, changes.SHOWN)}" if paths else ""
