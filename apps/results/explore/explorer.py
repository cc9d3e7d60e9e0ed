"""The explorer: any figure of a campaign over any of its factors, as selected by the URL. Only reads (SELECT)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np

import stats
from apps.campaigns.design import steps
from apps.campaigns.models import Campaign, Run
from apps.results.answers.hosts import retries_of
from apps.results.answers.observations import MeasuredRun, joint_observations, observations
from apps.results.explore.level_comparisons import ChartComparing
from apps.results.models import Measurement
from common.errors import PlanError
from common.wording import ci_of_mean

# Axes that are not factors; no name of a factor starts like this.
ORDER, BLOCK, HOST = "@order", "@block", "@host"
AXES = {ORDER: "run order", BLOCK: "block", HOST: "host"}
SHAPES = {
    "auto": "automatic",
    "strip": "points, means and CIs",
    "box": "box plots",
    "lines": "lines of means",
    "heat": "heat map",
}
SCALES = {"absolute": "absolute", "relative": "relative to a baseline"}
BOX_FROM = 8  # runs of a level; with fewer, a box hides more than it shows
MOST_STRIP = 3000  # points; more are drawn as boxes by default
RECENT = 20  # runs whose figures are offered
ONLY = "only."


@dataclass(frozen=True)
class View:
    """The query of the explorer. `figure`: step.name. `colour` and `facet` may be "". `only`: factor -> level."""

    figure: str
    x: str
    colour: str = ""
    facet: str = ""
    shape: str = "auto"
    scale: str = "absolute"
    base: str = ""
    only: tuple[tuple[str, str], ...] = ()

    @property
    def axes(self) -> tuple[str, str, str]:
        return self.facet, self.colour, self.x

    def query(self) -> dict[str, str]:
        """Return the query as in a URL, without empty values."""
        fields = {name: getattr(self, name) for name in ("figure", "x", "colour", "facet", "shape", "scale", "base")}
        return {name: value for name, value in fields.items() if value} | {
            ONLY + name: level for name, level in self.only
        }


@dataclass(frozen=True)
class ObservedRun:
    """One ok run: its levels, and the figure, in `unit` or in percent of the baseline. `retry`: how often it had been
    run before."""

    run: UUID
    host: str
    block: int
    position: int
    cell: Mapping[str, str]
    value: float
    retry: int = 0

    def on(self, axis: str) -> str:
        """Return its position on an axis; "" for no axis."""
        if axis in AXES:
            return {ORDER: str(self.position + 1), BLOCK: str(self.block + 1), HOST: self.host}[axis]
        return self.cell.get(axis, "")


@dataclass(frozen=True)
class RunGroup:
    """The `n` runs at one position of a chart. Interval and mean are None if they cannot be computed. `within_blocks`:
    the interval includes the variation within blocks only."""

    facet: str
    colour: str
    x: str
    n: int
    runs: list[ObservedRun]
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    within_blocks: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return self.facet, self.colour, self.x


@dataclass(frozen=True)
class Explored:
    """The content of a chart. `name`: of the figure, with its step if there are several. `over`: factors on no axis,
    whose levels are combined."""

    view: View
    name: str
    unit: str
    better: str
    facets: list[str]
    colours: list[str]
    xs: list[str]
    groups: list[RunGroup]
    over: list[str]

    @property
    def runs(self) -> list[ObservedRun]:
        return [run for group in self.groups for run in group.runs]

    @property
    def n(self) -> int:
        return sum(group.n for group in self.groups)

    @property
    def ci_of_mean(self) -> str:
        """The heading of the intervals."""
        return ci_of_mean(any(group.within_blocks for group in self.groups))

    def bare(self) -> Explored:
        """Return the same without the runs: a page loads those separately, with its chart."""
        return replace(self, groups=[replace(group, runs=[]) for group in self.groups])

    @property
    def relative(self) -> bool:
        return self.view.scale == "relative"

    @property
    def quantity(self) -> str:
        """The title of the value axis."""
        if self.relative:
            base = self.view.base or "the mean"
            return f"{self.name}, % against {base}"
        return self.name if self.unit in ("", self.name) else f"{self.name} ({self.unit})"

    @property
    def sentence(self) -> str:
        """A description for users who do not see the chart."""
        subject = f"{self.name} by {title(self.view.x)}" + (
            f", coloured by {title(self.view.colour)}" if self.view.colour else ""
        )
        means = [group for group in self.groups if group.mean is not None]
        if not means:
            return f"{subject}: {self.n} runs."
        low, high = min(means, key=_mean), max(means, key=_mean)
        unit = "%" if self.relative else self.unit
        ends = " to ".join(f"{_mean(one):.4g} {unit} at {_place(one)}" for one in (low, high))
        return f"{subject}: {self.n} runs, means from {ends}."


def _mean(group: RunGroup) -> float:
    return math.nan if group.mean is None else group.mean


def _place(group: RunGroup) -> str:
    return ", ".join(name for name in (group.facet, group.colour, group.x) if name)


def title(axis: str) -> str:
    return AXES.get(axis, axis)


def factors_of(campaign: Campaign) -> dict[str, list[str]]:
    """Return factor -> its levels, in order."""
    return {factor["name"]: [level["label"] for level in factor["levels"]] for factor in campaign.factors}


def figures_of(campaign: Campaign) -> list[Measurement]:
    """Return the figures of its latest ok runs, the campaign's metric first; one of each step and name."""
    recent = campaign.runs.filter(outcome=Run.Outcome.OK).order_by("-position").values("pk")[:RECENT]
    figures: dict[str, Measurement] = {}
    for row in Measurement.objects.filter(run__in=list(recent.values_list("pk", flat=True))).order_by("pk"):
        figures.setdefault(f"{row.step}.{row.name}", row)
    chosen = metric_of(campaign)
    return sorted(figures.values(), key=lambda row: f"{row.step}.{row.name}" != chosen)


def metric_of(campaign: Campaign) -> str:
    """Return the campaign's metric as step.name."""
    chosen = steps.metric(campaign.steps, campaign.compared)
    return f"{chosen.step}.{chosen.name}"


def read(campaign: Campaign, query: Mapping[str, str]) -> View:
    """Parse the query of a URL; omitted choices follow the design. PlanError names the invalid one."""
    factors = factors_of(campaign)
    several = sorted(factors, key=lambda name: -len(factors[name]))
    axes = [*factors, *AXES]
    x = _one_of("x", query.get("x") or several[0], axes)
    others = [name for name in several if name != x and len(factors[name]) > 1] if "x" not in query else []
    colour = _one_of("colour", query.get("colour", others[0] if others else ""), ["", *factors, HOST])
    facet = _one_of("facet", query.get("facet", others[1] if len(others) > 1 else ""), ["", *factors, HOST])
    if len({x, colour, facet} - {""}) < sum(map(bool, (x, colour, facet))):
        raise PlanError(
            "colour", f"{title(colour)!r} is already on another axis", hint="choose a different factor for each axis"
        )
    scale = _one_of("scale", query.get("scale") or "absolute", SCALES)
    only = tuple(
        (name, _one_of(ONLY + name, query[ONLY + name], factors[name])) for name in factors if query.get(ONLY + name)
    )
    base = query.get("base", "") if scale == "relative" and x in factors else ""
    if scale == "relative" and x in factors:
        base = _one_of("base", base or factors[x][0], factors[x])
    shape = _one_of("shape", query.get("shape") or "auto", SHAPES)
    figure = query.get("figure") or metric_of(campaign)
    if not figure.isprintable():
        raise PlanError(
            "figure", f"{figure!r} is not a figure", hint="accepted: STEP.NAME, such as " + metric_of(campaign)
        )
    return View(figure, x, colour, facet, shape, scale, base, only)


def _one_of(field: str, value: str, accepted: Iterable[str]) -> str:
    names = list(accepted)
    if value not in names:
        raise PlanError(
            field, f"{value!r} does not exist here", hint="accepted: " + ", ".join(name or "none" for name in names)
        )
    return value


def explore(campaign: Campaign, view: View) -> Explored:
    """Return the content of the chart. Two queries, one more for a stopping rule and for retried runs. PlanError if no
    run has the figure."""
    factors = factors_of(campaign)
    step, _, name = view.figure.partition(".")
    kind = Measurement.objects.filter(run__campaign=campaign, step=step, name=name).order_by().first()
    if kind is None:
        known = ", ".join(f"{row.step}.{row.name}" for row in figures_of(campaign)[:12])
        raise PlanError(
            "figure", f"no run has {view.figure!r}", hint=f"accepted: {known or 'none yet, no run has ended'}"
        )
    runs = [
        run
        for run in _observed_runs(campaign, step, name)
        if all(run.cell.get(factor) == level for factor, level in view.only)
    ]
    shown = replace(view, shape=_shape(view, runs))
    order = [_order(axis, factors, runs) for axis in shown.axes]
    groups = _grouped(runs, shown, order)
    if shown.shape != "box" or shown.scale == "relative":
        identical = campaign.placement == Campaign.Placement.SPREAD
        in_facets = [[one for one in groups if one.facet == facet] for facet in order[0]]
        groups = [group for own in in_facets for group in _with_means(own, shown, identical)]
    if shown.scale == "relative":
        groups = _relative(groups, shown, kind, ChartComparing.of(campaign))
    over = [factor for factor in factors if factor not in (*shown.axes, *dict(shown.only)) and len(factors[factor]) > 1]
    facets, colours, xs = order
    figure_name = name if len(steps.measured(campaign.steps)) == 1 else view.figure
    return Explored(shown, figure_name, kind.unit, kind.better, facets, colours, xs, groups, over)


def _observed_runs(campaign: Campaign, step: str, name: str) -> list[ObservedRun]:
    rows = Measurement.objects.filter(run__campaign=campaign, run__outcome=Run.Outcome.OK, step=step, name=name)
    columns = ("run_id", "run__host__name", "run__block", "run__position", "run__cell", "value", "run__retry_of")
    names = [factor["name"] for factor in campaign.factors]  # the order of the design, because jsonb has another one
    found = [row for row in rows.order_by().values_list(*columns) if math.isfinite(row[5])]
    again = campaign.runs.filter(retry_of__isnull=False).only("pk", "retry_of") if any(row[6] for row in found) else ()
    retries = retries_of(again)
    runs = [
        ObservedRun(
            run, host, block, position, {name: cell[name] for name in names if name in cell}, value, retries.get(run, 0)
        )
        for run, host, block, position, cell, value, _ in found
    ]
    return sorted(runs, key=lambda run: run.position)


def _shape(view: View, runs: Sequence[ObservedRun]) -> str:
    """Return the default shape: points for few runs, boxes for many, and always points in order of time."""
    if view.x in (ORDER, BLOCK):
        return "strip"
    if view.shape != "auto":
        return view.shape
    counted: dict[tuple[str, ...], int] = {}
    for run in runs:
        place = tuple(run.on(axis) for axis in view.axes)
        counted[place] = counted.get(place, 0) + 1
    return "box" if counted and min(counted.values()) >= BOX_FROM else "strip"


def _order(axis: str, factors: Mapping[str, list[str]], runs: Sequence[ObservedRun]) -> list[str]:
    """Return the positions on an axis in the order of the design, if they have runs."""
    levels = dict.fromkeys(run.on(axis) for run in runs)
    if axis in factors:
        return [level for level in factors[axis] if level in levels]
    return sorted(levels, key=lambda name: (int(name), "") if axis in (ORDER, BLOCK) else (0, name))


def _grouped(runs: Sequence[ObservedRun], view: View, order: Sequence[Sequence[str]]) -> list[RunGroup]:
    by_place: dict[tuple[str, ...], list[ObservedRun]] = {}
    for run in runs:
        place = tuple("" if axis in (ORDER, BLOCK) else run.on(axis) for axis in view.axes)
        by_place.setdefault(place, []).append(run)
    rank = [{name: number for number, name in enumerate(names)} for names in order]
    return [
        RunGroup(place[0], place[1], place[2], len(by_place[place]), by_place[place])
        for place in sorted(by_place, key=lambda place: [rank[axis].get(name, 0) for axis, name in enumerate(place)])
    ]


def _with_means(groups: list[RunGroup], view: View, identical: bool) -> list[RunGroup]:
    """Add geometric means with 95 % intervals, as in the table of a campaign; arithmetic means if a value has no
    logarithm. `identical`: whether each run of several hosts counts, not only their means."""
    if view.x in (ORDER, BLOCK):
        return groups
    runs = _measured(groups, lambda group: "\0".join(group.key))
    if not all(run.value > 0 for run in runs):
        return [replace(group, mean=float(np.mean([run.value for run in group.runs]))) for group in groups]
    # Each group is of one host if hosts are on an axis.
    rows = observations(runs) if HOST in view.axes else joint_observations(runs, identical=identical)
    table = stats.level_table(rows) if rows else None
    levels = {level.level: level for level in table.levels} if table else {}
    within_blocks = table is not None and table.blocked
    return [_with(group, levels.get("\0".join(group.key)), within_blocks) for group in groups]


def _measured(groups: Sequence[RunGroup], level: Callable[[RunGroup], str]) -> list[MeasuredRun]:
    """Return the runs of all groups, group by group."""
    return [
        MeasuredRun(level(group), run.value, run.block, run.position, run.host, run.retry)
        for group in groups
        for run in group.runs
    ]


def _with(group: RunGroup, level: stats.Level | None, within_blocks: bool) -> RunGroup:
    """The group with its mean; without an interval if none of its runs is in a block with all levels of its host."""
    if level is None:
        return replace(group, mean=math.exp(float(np.mean(np.log([run.value for run in group.runs])))))
    low, high = level.interval or (None, None)
    return replace(group, mean=level.mean, low=low, high=high, within_blocks=within_blocks)


def _relative(groups: list[RunGroup], view: View, kind: Measurement, comparing: ChartComparing) -> list[RunGroup]:
    """Convert everything to percent of the baseline with the same colour and facet: the level `base` of x, or the mean
    of all if x is not a factor.

    The interval of a level is that of its comparison, not that of its mean."""
    relative: list[RunGroup] = []
    for place in dict.fromkeys((group.facet, group.colour) for group in groups):
        own = [group for group in groups if (group.facet, group.colour) == place]
        relative += _against(own, view, kind, comparing)
    return relative


def _against(own: list[RunGroup], view: View, kind: Measurement, comparing: ChartComparing) -> list[RunGroup]:
    base = next((group for group in own if group.x == view.base), None) if view.base else None
    if view.base and base is None:
        return []
    values = [run.value for group in ([base] if base else own) for run in group.runs]
    if min(values) <= 0:
        raise PlanError("scale", f"{kind.name} is 0 in some runs, so it has no ratio", hint="choose absolute figures")
    middle = base.mean if base and base.mean is not None else math.exp(float(np.mean(np.log(values))))
    compared = _comparisons(own, view, kind, comparing) if base else {}
    return [_scaled(group, lambda value: 100 * (value / middle - 1), compared.get(group.x)) for group in own]


def _comparisons(
    own: list[RunGroup], view: View, kind: Measurement, comparing: ChartComparing
) -> dict[str, stats.Comparison]:
    runs = _measured(own, lambda group: group.x)
    if len(own) < 2 or not all(run.value > 0 for run in runs):
        return {}
    labels = [", ".join(run.cell.values()) for group in own for run in group.runs]
    metric = stats.Metric(kind.name, kind.unit, kind.better or "higher")  # type: ignore[arg-type]
    return comparing.against(runs, labels, view.base, metric)


def _scaled(group: RunGroup, shown: Callable[[float], float], compared: stats.Comparison | None) -> RunGroup:
    interval = compared.interval if compared else None
    mean = None if group.mean is None else shown(group.mean)
    runs = [replace(run, value=shown(run.value)) for run in group.runs]
    low, high = interval or (None, None)
    return replace(group, runs=runs, mean=mean, low=low, high=high, within_blocks=False)


COUNTS_CPUS = re.compile(r"\b(?:cpus?|cores?)\b", re.IGNORECASE)


def ideal_scaling(view: View, better: str) -> bool:
    """Return whether the x-axis counts CPUs, so that ideal scaling can be drawn."""
    return bool(COUNTS_CPUS.search(view.x)) and better == "higher" and view.scale == "absolute"
