"""SELECT only: two or more sets of runs side by side: what the figures carry, what was set, and what else differed."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Avg, Count, F, Q, QuerySet
from django.http import QueryDict
from django.urls import reverse

import stats
from apps.campaigns.design import steps
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.results.answers.comparison import differences
from apps.results.answers.comparison.between_campaigns import Days, campaigns_of, days_of
from apps.results.answers.comparison.differences import Difference, Ran
from apps.results.models import Measurement
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
# As Ran has them; campaigns and hosts are read once for all, and a spec once for all that have the same.
SHOWN = ("pk", "campaign_id", "host_id", "facts_id", "position", "block", "digest")
FIRST = 500  # runs of a campaign, among which nearly always is one of each level
ENOUGH = 50  # runs that tell how long one takes
NEWEST = 20  # campaigns of a profile or a host that are looked at

WIDE = ("campaign", "profile", "host")  # sides of more than one level

What = tuple[int, str]  # workload, and the levels in a line


@dataclass(frozen=True)
class Arm:
    """One side: `runs` are ok ones, those of the rows `chosen`; `values` the figure of those that have it."""

    key: str
    kind: str
    title: str
    url: str
    chosen: QuerySet[Run]
    runs: list[Ran] = field(default_factory=list)
    values: dict[UUID, float] = field(default_factory=dict)
    mean: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def measured(self) -> list[tuple[Ran, float]]:
        """The first MOST_ROWS runs that have the figure."""
        return [(run, self.values[run.pk]) for run in self.runs if run.pk in self.values][:MOST_ROWS]


@dataclass(frozen=True)
class Wide:
    """A side of more than one level: all its ok runs, and how many there are of each."""

    arm: Arm
    counts: Counter[What]


@dataclass(frozen=True)
class Compared:
    """`whats`: what all `wide` sides have in common to be compared on, as (value for an address, words, fewest runs);
    `sentences`: each other side against the first; `hours`: of the runs still needed, where more would tell; `days`:
    where the sides are of several campaigns."""

    arms: list[Arm]
    figure: str
    unit: str
    better: str
    delta: float
    figures: list[str]
    wide: list[Wide]
    whats: list[tuple[str, str, int]]
    what: str
    comparisons: list[stats.Comparison]
    paired: bool
    differences: list[Difference]
    unplanned: list[Difference]
    warnings: list[str]
    more: list[str]
    days: Days | None = None

    @property
    def sentence(self) -> str:
        return " ".join(one.sentence() for one in self.comparisons)

    def query(self) -> dict[str, Any]:
        """As an address has it, with what it left open."""
        asked = {"of": [arm.key for arm in self.arms], "figure": self.figure, "delta": f"{100 * self.delta:g}"}
        return asked | ({"what": self.what} if self.what else {})


def read(asked: QueryDict) -> Compared:
    """The comparison that an address asks for."""
    margin = _margin(asked.get("delta", ""))
    return compare(asked.getlist("of"), asked.get("what", ""), asked.get("figure", ""), margin)


def _margin(asked: str) -> float | None:
    """In percent, as people say it; "" asks for that of the first side's campaign."""
    if not asked:
        return None
    try:
        value = float(asked) / 100
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise PlanError(
            "delta", f"{asked!r} is not a margin", hint="accepted: a percentage between 0 and 100, such as 2"
        )
    return value


def compare(asked: Sequence[str], what: str = "", figure: str = "", delta: float | None = None) -> Compared:
    """What the addresses in `asked` name, the first being the baseline. PlanError naming what is unknown or unlike."""
    keys = list(dict.fromkeys(asked))
    if not LEAST <= len(keys) <= MOST:
        hint = "pick from: " + ", ".join(KINDS.values())
        raise PlanError("of", f"compare {LEAST} to {MOST} items, not {len(keys)}", hint=hint)
    sides = _told_apart([_side(key) for key in keys])
    wide = [Wide(arm, _counted(arm.chosen)) for arm in sides if arm.kind in WIDE]
    whats = common(wide)
    chosen = _chosen(whats, what)
    arms = [_with_runs(arm, chosen) for arm in sides]
    first = arms[0].runs[0].campaign
    figures = _figures(arms)
    name = figure or _usual(first, figures)
    if name not in figures:
        raise PlanError(
            "figure", f"some of the items do not have {name!r}", hint="accepted: " + (", ".join(figures) or "none")
        )
    return _compared(arms, name, figures, wide, chosen, delta if delta is not None else first.delta)


def _side(key: str) -> Arm:
    kind, _, rest = key.partition(":")
    if kind not in FINDERS or not rest:
        raise PlanError(
            "of", f"{key!r} does not name an item to compare", hint="accepted: " + ", ".join(KINDS.values())
        )
    try:
        title, url, runs = FINDERS[kind](rest)
    except (ObjectDoesNotExist, ValueError) as error:
        raise PlanError("of", f"{key!r} does not exist", hint="accepted: " + KINDS[kind]) from error
    return Arm(key, kind, title, url, runs.filter(outcome=Run.Outcome.OK))


Found = tuple[str, str, QuerySet[Run]]  # title, address, and all its runs


def _run(rest: str) -> Found:
    run = Run.objects.select_related("campaign").get(pk=UUID(rest))
    title = f"run {run.position + 1} of {run.campaign}, {run.label}"
    return title, reverse("run_detail", args=[run.pk]), Run.objects.filter(pk=run.pk)


def _level(rest: str) -> Found:
    pk, _, label = rest.partition(":")
    campaign = Campaign.objects.get(pk=UUID(pk))
    known = _cells(campaign, campaign.runs.filter(position__lt=FIRST))
    if label not in known:
        known = _cells(campaign, campaign.runs.all())
    if label not in known:
        hint = "accepted: " + ", ".join(list(known)[:12])
        raise PlanError("of", f"{campaign} has no level {label!r}", hint=hint)
    url = reverse("campaign_detail", args=[campaign.pk])
    return f"{label} of {campaign}", url, campaign.runs.filter(cell=known[label])


def _cells(campaign: Campaign, runs: QuerySet[Run]) -> dict[str, dict[str, str]]:
    """label -> levels, of these runs."""
    names = [factor["name"] for factor in campaign.factors]
    cells = runs.order_by().values_list("cell", flat=True).distinct()
    return {", ".join(cell[name] for name in names if name in cell): cell for cell in cells}


def _campaign(rest: str) -> Found:
    campaign = Campaign.objects.get(pk=UUID(rest))
    return campaign.name, reverse("campaign_detail", args=[campaign.pk]), campaign.runs.all()


def _profile(rest: str) -> Found:
    name, _, number = rest.rpartition("@")
    revision = Revision.objects.get(profile__name=name, number=int(number))
    url = reverse("profile_detail", args=[name]) + f"?r={number}"
    return str(revision), url, Run.objects.filter(campaign__in=_newest(Campaign.objects.filter(profile=revision)))


def _host(rest: str) -> Found:
    host = Host.objects.get(name=rest)
    took_part = Campaign.objects.filter(Q(host=host) | Q(further_hosts=host)).distinct()
    url = reverse("host_detail", args=[host.name])
    return host.name, url, Run.objects.filter(campaign__in=_newest(took_part), host=host)


def _newest(campaigns: QuerySet[Campaign]) -> list[UUID]:
    return list(campaigns.order_by("-created_at").values_list("pk", flat=True)[:NEWEST])


FINDERS: dict[str, Callable[[str], Found]] = {
    "run": _run,
    "level": _level,
    "campaign": _campaign,
    "profile": _profile,
    "host": _host,
}


def _told_apart(sides: Sequence[Arm]) -> list[Arm]:
    """Two campaigns of one name are two sides."""
    seen: Counter[str] = Counter()
    found = []
    if len({arm.url for arm in sides}) == 1 and all(arm.kind == "level" for arm in sides):
        # Of one campaign: its name says nothing new.
        sides = [replace(arm, title=arm.key.split(":", 2)[2]) for arm in sides]
    for arm in sides:
        seen[arm.title] += 1
        again = f" ({seen[arm.title]})" if seen[arm.title] > 1 else ""
        found.append(replace(arm, title=arm.title + again))
    return found


def common(wide: Sequence[Wide]) -> dict[What, int]:
    """What all sides that are more than one level have run -> the fewest runs of it; what most have run comes first."""
    if not wide:
        return {}
    shared = set.intersection(*(set(each.counts) for each in wide))
    if not shared:
        raise PlanError(
            "of", "they have no levels of the same workload in common", hint="compare levels or runs instead"
        )
    fewest = {what: min(each.counts[what] for each in wide) for what in shared}
    return dict(sorted(fewest.items(), key=lambda pair: (-pair[1], pair[0])))


def _counted(runs: QuerySet[Run]) -> Counter[What]:
    found: Counter[What] = Counter()
    rows = runs.order_by().values("campaign__workload", "cell").annotate(n=Count("pk"))
    for row in rows.values_list("campaign__workload", "cell", "n"):
        found[row[0] or 0, json.dumps(row[1], sort_keys=True)] += row[2]
    return found


def _chosen(whats: Mapping[What, int], asked: str) -> What | None:
    if not whats:
        return None
    named = {name_of(what): what for what in whats}
    if asked and asked not in named:
        raise PlanError("what", f"{asked!r} was not run by all of them", hint="accepted: " + ", ".join(list(named)[:8]))
    return named[asked] if asked else next(iter(whats))


def name_of(what: What) -> str:
    return f"{what[0]}:{what[1]}"


def words_of(what: What, campaign: Campaign) -> str:
    """The levels in the order of a campaign's design, as its runs' labels have them."""
    levels = json.loads(what[1])
    names = [factor["name"] for factor in campaign.factors if factor["name"] in levels]
    ordered = [levels.pop(name) for name in names]
    return ", ".join([*ordered, *levels.values()]) or "no settings changed"


def _with_runs(arm: Arm, what: What | None) -> Arm:
    wanted = arm.chosen
    if what and arm.kind in WIDE:
        wanted = wanted.filter(campaign__workload=what[0] or None, cell=json.loads(what[1]))
    rows = list(wanted.order_by("campaign__created_at", "position").values_list(*SHOWN))
    if not rows:
        raise PlanError("of", f"{arm.title} has no successful run", hint="wait for one, or choose another item")
    campaigns = Campaign.objects.select_related("workload").in_bulk({campaign for _, campaign, *_ in rows})
    hosts = Host.objects.in_bulk({host for _, _, host, *_ in rows})
    runs = [Ran(pk, campaigns[campaign], hosts[host], *more) for pk, campaign, host, *more in rows]
    return replace(arm, runs=runs, chosen=wanted)


def _figures(arms: Sequence[Arm]) -> list[str]:
    """What a run of every side has."""
    names: list[dict[str, None]] = []
    for arm in arms:
        rows = Measurement.objects.filter(run=arm.runs[-1].pk).order_by("pk").values_list("step", "name")
        names.append(dict.fromkeys(f"{step}.{name}" for step, name in rows))
    return [name for name in names[0] if all(name in each for each in names[1:])]


def _usual(campaign: Campaign, figures: Sequence[str]) -> str:
    """The metric of the first side's campaign, or what all have."""
    chosen = steps.metric(campaign.steps, campaign.metric) if campaign.metric else None
    name = f"{chosen.step}.{chosen.name}" if chosen else ""
    return name if name in figures or not figures else figures[0]


def _compared(
    arms: Sequence[Arm], name: str, figures: list[str], wide: list[Wide], what: What | None, delta: float
) -> Compared:
    step, _, measured = name.partition(".")
    kind, filled = _measured(arms, step, measured)
    rows, paired = _observations(filled)
    days = days_of(filled, step, measured) if kind.better else None
    compared = _comparisons(filled, rows, kind, delta, days)
    told = stats.level_table(rows) if all(row.value > 0 for row in rows) else None
    levels = {level.level: level for level in told.levels} if told else {}
    shown = [_told(arm, levels.get(arm.title)) for arm in filled]
    sides, first = [arm.runs for arm in shown], shown[0].runs[0].campaign
    unplanned, warnings = differences.of_hosts(sides, [arm.title for arm in shown])
    return Compared(
        arms=shown,
        figure=name,
        unit=kind.unit,
        better=kind.better,
        delta=delta,
        figures=figures,
        wide=wide,
        whats=[(name_of(each), words_of(each, first), fewest) for each, fewest in common(wide).items()],
        what=name_of(what) if what else "",
        comparisons=compared,
        paired=paired,
        differences=differences.of_settings(sides),
        unplanned=unplanned,
        warnings=warnings,
        more=_more(shown, compared),
        days=days,
    )


def _measured(arms: Sequence[Arm], step: str, name: str) -> tuple[Measurement, list[Arm]]:
    known = Measurement.objects.filter(step=step, name=name).order_by()
    filled = []
    for arm in arms:
        rows = known.filter(run__in=[run.pk for run in arm.runs]).values_list("run_id", "value")
        values = {run: value for run, value in rows if math.isfinite(value)}
        if not values:
            raise PlanError("figure", f"no run of {arm.title} has {step}.{name}", hint="choose another figure")
        filled.append(replace(arm, values=values))
    return known.get(run=next(iter(filled[0].values))), filled


def _observations(arms: Sequence[Arm]) -> tuple[list[stats.Observation], bool]:
    """Blocks hold where all sides are of one campaign and one host; else each run stands alone."""
    of = {(run.campaign.pk, run.host.pk) for arm in arms for run in arm.runs}
    paired, rows = len(of) == 1, list[stats.Observation]()
    for arm in arms:
        for run in arm.runs:
            if run.pk in arm.values:
                block = run.block if paired else len(rows)
                rows.append(stats.Observation(arm.title, block, arm.values[run.pk], run.position))
    return rows, paired


def _comparisons(
    arms: Sequence[Arm], rows: list[stats.Observation], kind: Measurement, delta: float, days: Days | None
) -> list[stats.Comparison]:
    """Each against the first; several hold together (Dunnett, max-t or Bonferroni)."""
    if not kind.better or not all(row.value > 0 for row in rows):
        return []
    metric = stats.Metric(kind.name, kind.unit, kind.better)  # type: ignore[arg-type]  # the model's own words
    if days:
        return [_of_campaigns(arms[0], arm, days, metric, delta, len(arms) - 1) for arm in arms[1:]]
    if len(arms) == 2:
        return [stats.compare_levels(rows, arms[0].title, arms[1].title, metric, delta)]
    return stats.against_baseline(rows, arms[0].title, metric, delta)


def _of_campaigns(a: Arm, b: Arm, days: Days, metric: stats.Metric, delta: float, of: int) -> stats.Comparison:
    """Side b against a, where the sides are of several campaigns."""
    first, second = list(a.values.values()), list(b.values.values())
    names, counts = (a.title, b.title), (len(campaigns_of(a)), len(campaigns_of(b)))
    if len(campaigns_of(a, b)) == 1:
        return stats.compare(first, second, metric=metric, delta=delta, blocked=False, names=names, of=of)
    return stats.compare_campaigns(
        first, second, days.between, metric=metric, delta=delta, names=names, campaigns=counts, of=of
    )


def _told(arm: Arm, level: stats.Level | None) -> Arm:
    if level is None:
        return replace(arm, mean=float(np.mean(list(arm.values.values()))))
    low, high = level.interval or (None, None)
    return replace(arm, mean=level.mean, low=low, high=high)


def _more(arms: Sequence[Arm], compared: Sequence[stats.Comparison]) -> list[str]:
    """How many more runs would tell, in hours of this workload."""
    ids = [run.pk for arm in arms for run in arm.runs]
    took = Run.objects.filter(pk__in=ids[:ENOUGH]).aggregate(each=Avg(F("ended_at") - F("started_at")))["each"]
    told = []
    for one in compared:
        lacking = (one.runs_needed or 0) - one.n
        if one.verdict not in ("better", "worse", "equivalent") and lacking > 0:
            hours = f", about {2 * lacking * took.total_seconds() / 3600:,.1f} h" if took else ""
            need = f"Runs needed to detect {100 * one.delta:g} % (80 % power)"
            told.append(f"{need}: {lacking:,} more of {one.a} and of {one.b}{hours}.")
    return told
