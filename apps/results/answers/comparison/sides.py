"""SELECT only: what a comparison can have as a side, from its address to its runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Count, Q, QuerySet
from django.urls import reverse

from apps.campaigns.design.factors import readable_name
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.results.answers.comparison.differences import ComparedRun
from apps.tuning.models import Revision
from common.errors import PlanError

KINDS = {
    "run": "run:ID",
    "level": "level:CAMPAIGN ID:LEVEL",
    "campaign": "campaign:ID",
    "profile": "profile:NAME@REVISION",
    "host": "host:NAME",
}
LEAST, MOST = 2, 6
LETTERS = "ABCDEF"  # of the sides, in their order
MOST_ROWS = 300
FEW = 300  # runs whose figures are read by their keys
# As Ran has them; campaigns and hosts are read once for all, and a spec once for all that have the same.
SHOWN = ("pk", "campaign_id", "host_id", "facts_id", "position", "block", "digest")
FIRST = 100  # runs of a campaign, among which nearly always is one of each level
NEWEST = 20  # campaigns of a profile or a host that are compared

WIDE = ("campaign", "profile", "host")  # sides of more than one level

What = tuple[int, str]  # workload, and the levels in a line


@dataclass(frozen=True)
class Arm:
    """One side: `runs` are ok ones, those of the rows `chosen`; `measured` are those that have the figure, with it."""

    key: str
    kind: str
    title: str
    url: str
    chosen: QuerySet[Run]
    runs: list[ComparedRun] = field(default_factory=list)
    measured: list[tuple[ComparedRun, float]] = field(default_factory=list)
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    short: str = ""

    @property
    def n(self) -> int:
        return len(self.measured)

    @property
    def run_keys(self) -> Any:
        """The keys of its runs for a query. A subquery reads all runs of a campaign to find those of one of its levels,
        so it is used only if they are many."""
        return [run.pk for run in self.runs] if len(self.runs) <= FEW else self.chosen.order_by().values("pk")

    @property
    def values(self) -> list[float]:
        return [value for _, value in self.measured]

    @property
    def shown(self) -> list[tuple[ComparedRun, float]]:
        """The first MOST_ROWS runs that have the figure."""
        return self.measured[:MOST_ROWS]


@dataclass(frozen=True)
class Wide:
    """A side of more than one level: all its ok runs, and how many there are of each."""

    arm: Arm
    counts: Counter[What]


def read_side(key: str) -> Arm:
    """The side that an address names, without its runs. PlanError if there is none."""
    kind, _, rest = key.partition(":")
    if kind not in FINDERS or not rest:
        raise PlanError(
            "of", f"{key!r} does not name an item to compare", hint="accepted: " + ", ".join(KINDS.values())
        )
    try:
        item = FINDERS[kind](rest)
    except (ObjectDoesNotExist, ValueError) as error:
        raise PlanError("of", f"{key!r} does not exist", hint="accepted: " + KINDS[kind]) from error
    return Arm(key, kind, item.title, item.url, item.runs.filter(outcome=Run.Outcome.OK), short=item.short)


class SideItem(NamedTuple):
    """The item that a key names: its title, its page, and all its runs. `short` is its title if all sides are levels of
    one campaign."""

    title: str
    url: str
    runs: QuerySet[Run]
    short: str = ""


def _run(rest: str) -> SideItem:
    run = Run.objects.select_related("campaign").get(pk=UUID(rest))
    title = f"run {run.position + 1} of {run.campaign}, {readable_name(run.campaign.factors, run.cell)}"
    return SideItem(title, reverse("run_detail", args=[run.pk]), Run.objects.filter(pk=run.pk))


def _level(rest: str) -> SideItem:
    pk, _, label = rest.partition(":")
    campaign = Campaign.objects.get(pk=UUID(pk))
    cells = campaign.runs.order_by("position").values_list("cell", flat=True)
    known = _named(campaign, cells[:FIRST])
    if label not in known:
        known = _named(campaign, cells.order_by().distinct())
    if label not in known:
        hint = "accepted: " + ", ".join(list(known)[:12])
        raise PlanError("of", f"{campaign} has no level {label!r}", hint=hint)
    url = reverse("campaign_detail", args=[campaign.pk])
    short = readable_name(campaign.factors, known[label])
    return SideItem(f"{short} of {campaign}", url, campaign.runs.filter(cell=known[label]), short)


def _named(campaign: Campaign, cells: Iterable[dict[str, str]]) -> dict[str, dict[str, str]]:
    """label -> levels, of these cells."""
    names = [factor["name"] for factor in campaign.factors]
    return {", ".join(cell[name] for name in names if name in cell): cell for cell in cells}


def _campaign(rest: str) -> SideItem:
    campaign = Campaign.objects.get(pk=UUID(rest))
    return SideItem(campaign.name, reverse("campaign_detail", args=[campaign.pk]), campaign.runs.all())


def _profile(rest: str) -> SideItem:
    name, _, number = rest.rpartition("@")
    revision = Revision.objects.get(profile__name=name, number=int(number))
    url = reverse("profile_detail", args=[name]) + f"?r={number}"
    runs = Run.objects.filter(campaign__in=_newest(Campaign.objects.filter(profile=revision)))
    return SideItem(str(revision), url, runs)


def _host(rest: str) -> SideItem:
    host = Host.objects.get(name=rest)
    took_part = Campaign.objects.filter(Q(host=host) | Q(further_hosts=host)).distinct()
    url = reverse("host_detail", args=[host.name])
    newest = _newest(took_part)
    runs = Run.objects.filter(campaign__in=newest)
    # With a condition on the host, PostgreSQL reads the index entries of all its runs as well.
    has_others = Campaign.further_hosts.through.objects.filter(campaign__in=newest).exists()
    return SideItem(host.name, url, runs.filter(host=host) if has_others else runs)


def _newest(campaigns: QuerySet[Campaign]) -> list[UUID]:
    return list(campaigns.order_by("-created_at").values_list("pk", flat=True)[:NEWEST])


FINDERS: dict[str, Callable[[str], SideItem]] = {
    "run": _run,
    "level": _level,
    "campaign": _campaign,
    "profile": _profile,
    "host": _host,
}


def with_distinct_titles(sides: Sequence[Arm]) -> list[Arm]:
    """Two campaigns of one name are two sides."""
    title_counts: Counter[str] = Counter()
    titled = []
    if len({arm.url for arm in sides}) == 1 and all(arm.kind == "level" for arm in sides):
        # Of one campaign: its name adds nothing.
        sides = [replace(arm, title=arm.short) for arm in sides]
    for arm in sides:
        title_counts[arm.title] += 1
        again = f" ({title_counts[arm.title]})" if title_counts[arm.title] > 1 else ""
        titled.append(replace(arm, title=arm.title + again))
    return titled


def common(wide: Sequence[Wide]) -> dict[What, int]:
    """What all sides that are more than one level have run -> the fewest runs of it; what most have run comes first."""
    if not wide:
        return {}
    shared = set.intersection(*(set(side.counts) for side in wide))
    if not shared:
        raise PlanError(
            "of", "they have no levels of the same workload in common", hint="compare levels or runs instead"
        )
    fewest = {what: min(side.counts[what] for side in wide) for what in shared}
    return dict(sorted(fewest.items(), key=lambda pair: (-pair[1], pair[0])))


def with_counts(arms: Sequence[Arm]) -> list[Wide]:
    """Sides of more than one level, with the number of ok runs of each. One query for each side, and one."""
    rows = [list(arm.chosen.order_by().values_list("campaign_id", "cell").annotate(n=Count("pk"))) for arm in arms]
    workload_of = workloads_of(campaign for each in rows for campaign, *_ in each)
    wide = [Wide(arm, Counter()) for arm in arms]
    for side, each in zip(wide, rows, strict=True):
        for campaign, cell, n in each:
            side.counts[workload_of[campaign], json.dumps(cell, sort_keys=True)] += n
    return wide


def workloads_of(campaigns: Iterable[UUID]) -> dict[UUID, int]:
    """The workload of each campaign, 0 for none. Joined to the runs, PostgreSQL reads all campaigns instead."""
    if not (keys := set(campaigns)):
        return {}
    known = Campaign.objects.filter(pk__in=keys).order_by()
    return {campaign: workload or 0 for campaign, workload in known.values_list("pk", "workload")}


def choose_level(whats: Mapping[What, int], name: str) -> What | None:
    """The level called `name`, or the one that most have run. PlanError where not all sides have run it."""
    if not whats:
        return None
    named = {name_of(what): what for what in whats}
    if name and name not in named:
        raise PlanError("what", f"{name!r} was not run by all of them", hint="accepted: " + ", ".join(list(named)[:8]))
    return named[name] if name else next(iter(whats))


def name_of(what: What) -> str:
    return f"{what[0]}:{what[1]}"


def describe_level(what: What, campaign: Campaign) -> str:
    """The levels in the order of a campaign's design, as its runs' labels have them."""
    levels = json.loads(what[1])
    names = [factor["name"] for factor in campaign.factors if factor["name"] in levels]
    ordered = [levels.pop(name) for name in names]
    return ", ".join([*ordered, *levels.values()]) or "no settings changed"


def with_runs(arms: Sequence[Arm], what: What | None) -> list[Arm]:
    """The sides with their ok runs, of `what` where they have more than one level. PlanError where one has none. One
    query for each side, and two."""
    chosen = [_of_level(arm, what) if what and arm.kind in WIDE else arm.chosen for arm in arms]
    rows = [list(runs.order_by("campaign__created_at", "position").values_list(*SHOWN)) for runs in chosen]
    for arm, its_rows in zip(arms, rows, strict=True):
        if not its_rows:
            raise PlanError("of", f"{arm.title} has no successful run", hint="wait for one, or choose another item")
    keys, host_keys = ({row[column] for its_rows in rows for row in its_rows} for column in (1, 2))
    campaigns = Campaign.objects.select_related("workload").in_bulk(keys)
    hosts = Host.objects.in_bulk(host_keys)
    return [
        replace(
            arm, runs=[ComparedRun._make((*row, campaigns[row[1]], hosts[row[2]])) for row in its_rows], chosen=runs
        )
        for arm, its_rows, runs in zip(arms, rows, chosen, strict=True)
    ]


def _of_level(arm: Arm, what: What) -> QuerySet[Run]:
    return arm.chosen.filter(campaign__workload=what[0] or None, cell=json.loads(what[1]))
