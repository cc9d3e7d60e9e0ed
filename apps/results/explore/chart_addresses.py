"""Pages with charts, and what their URLs select. A URL from a request is rebuilt from known parts.

A stored URL is built from the table of URLs and the choices that its page knows, so nothing else is ever stored,
redirected to, or fetched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit
from uuid import UUID

from django.db.models import Model
from django.http import QueryDict
from django.urls import Resolver404, resolve, reverse

from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.request_values import whole
from apps.results.answers.comparison import compare
from apps.results.answers.comparison.sides import LETTERS
from apps.results.answers.history.baselines import baselines
from apps.results.explore import explorer, run_charts
from apps.results.runs import spreads, time_axis
from apps.results.store import series
from common.errors import PlanError

Key = UUID | str | None
LONGEST = 2000  # characters of a URL
# Browsers read a URL that starts with // or /\ as one of another server.
OWN, CONTROL = re.compile(r"/[^/\\]"), re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Chart:
    """A chart of a page: the URL name that draws it, with parameters in addition to the page's own, and that of its
    CSV. `chosen`: the choice in the path of that URL."""

    title: str
    figure: str
    args: tuple[str, ...] = ()
    chosen: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    csv: str = ""
    low: bool = False


@dataclass(frozen=True)
class Selection:
    """The choices that a URL selects, in full, and their title."""

    choices: dict[str, Any]
    title: str


@dataclass(frozen=True)
class ChartPage:
    """A page with charts, the default one first: its title, an example of its URL, and its parser. `of`: model of
    the object in the URL, found by the column `by`."""

    name: str
    example: str
    charts: Mapping[str, Chart]
    read: Callable[[Key, QueryDict, str], Selection]
    of: type[Model] | None = None
    by: str = "pk"


@dataclass(frozen=True)
class ChartAddress:
    """One chart of one page, as a URL selects it."""

    name: str
    key: Key
    query: str
    chart: str

    @property
    def page(self) -> ChartPage:
        return PAGES[self.name]

    @property
    def drawn(self) -> Chart:
        return self.page.charts[self.chart]

    @property
    def address(self) -> str:
        return _with(reverse(self.name, args=self._keys), self.query)

    @property
    def figure(self) -> str:
        query = "&".join(filter(None, (self.query, urlencode(self.drawn.parameters))))
        chosen = [QueryDict(self.query).get(self.drawn.chosen) or "-"] if self.drawn.chosen else []
        return _with(reverse(self.drawn.figure, args=[*self._keys, *self.drawn.args, *chosen]), query)

    @property
    def csv(self) -> str:
        return _with(reverse(self.drawn.csv, args=self._keys), self.query) if self.drawn.csv else ""

    @property
    def _keys(self) -> list[UUID | str]:
        return [] if self.key is None else [self.key]


def _with(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def find(address: str, chart: str = "") -> ChartAddress:
    """Return the chart that a URL selects; by default that of its page. No query: the object may not exist any more."""
    if not OWN.match(address) or CONTROL.search(unquote(address)) or len(address) > LONGEST:
        raise _refusal(address, "is not an address of this server")
    split = urlsplit(address)
    try:
        match = resolve(unquote(split.path))
    except Resolver404 as error:
        raise _refusal(address, "does not exist") from error
    page = PAGES.get(match.view_name)
    if page is None:
        raise _refusal(address, "is a page without a chart")
    name = chart or next(iter(page.charts))
    if name not in page.charts:
        raise PlanError("chart", f"{name!r} is not a chart of that page", hint=f"accepted: {', '.join(page.charts)}")
    return ChartAddress(match.view_name, next(iter(match.kwargs.values()), None), split.query, name)


def complete(address: str, chart: str = "") -> tuple[ChartAddress, str]:
    """Return the same with its choices in full, so that it keeps its meaning, and a title.

    PlanError if there is no such object, or if it does not have what the URL selects."""
    place = find(address, chart)
    selection = place.page.read(place.key, QueryDict(place.query), place.chart)
    return replace(place, query=urlencode(selection.choices, doseq=True)), selection.title


def missing_objects(places: Iterable[ChartAddress]) -> set[UUID | str]:
    """Return the keys of objects that do not exist any more; one query for each kind of object."""
    keys_by_model: dict[tuple[type[Model], str], set[UUID | str]] = {}
    for place in places:
        if place.page.of is not None and place.key is not None:
            keys_by_model.setdefault((place.page.of, place.page.by), set()).add(place.key)
    gone: set[UUID | str] = set()
    for (of, by), keys in keys_by_model.items():
        gone |= keys - set(of._default_manager.filter(**{f"{by}__in": keys}).values_list(by, flat=True))
    return gone


def _refusal(address: str, why: str) -> PlanError:
    shown = address if len(address) <= 120 else f"{address[:120]}…"
    examples = ", ".join(page.example for page in PAGES.values())
    return PlanError("address", f"{shown!r} {why}", hint=f"accepted: a path with its choices, such as {examples}")


def _campaign(key: Key) -> Campaign:
    campaign = Campaign.objects.select_related("workload").filter(pk=str(key)).first()
    if campaign is None:
        raise PlanError("address", f"campaign {key} does not exist", hint="copy the address of a page that opens")
    if not campaign.metric or campaign.state == Campaign.State.DRAFT:
        raise PlanError(
            "address", f"{campaign} has no chart", hint="accepted: a campaign that was started and has measurements"
        )
    return campaign


def _of_campaign(key: Key, query: QueryDict, chart: str) -> Selection:
    campaign, host = _campaign(key), query.get("host", "")
    title = campaign.name if chart == "levels" else f"{campaign.name}: {chart}"
    choices: dict[str, Any] = {}
    if chart == "spread":
        choices, title = _section(campaign, query)
    if not host:
        return Selection(choices, title)
    known = dict(campaign.runs.order_by().values_list("host_id", "host__name").distinct())
    number = whole(host)
    if number is None or number not in known:
        accepted = ", ".join(f"{pk} ({name})" for pk, name in sorted(known.items()))
        raise PlanError("address", f"host={host!r} is not a host of {campaign}", hint=f"accepted: {accepted}")
    return Selection(choices | {"host": host}, f"{title} on {known[number]}")


def _section(campaign: Campaign, query: QueryDict) -> tuple[dict[str, Any], str]:
    known, section = spreads.sections_of(campaign), query.get("section", "")
    if section not in known:
        raise PlanError(
            "address", f"section={section!r} is not a section of the fio results", hint=_accepted("section=", known)
        )
    return {"section": section}, f"{campaign.name}: distribution of latencies in {spreads.section_name(known[section])}"


def _of_explorer(key: Key, query: QueryDict, chart: str) -> Selection:
    campaign = _campaign(key)
    view = explorer.read(campaign, query)
    explored = explorer.explore(campaign, view)
    aside = [explorer.title(axis) for axis in (view.colour, view.facet) if axis]
    over = " and ".join([explorer.title(view.x), *aside])
    only = "".join(f", {level}" for _, level in view.only)
    return Selection(view.query(), f"{campaign.name}: {explored.quantity} by {over}{only}")


def _of_comparison(key: Key, query: QueryDict, chart: str) -> Selection:
    compared = compare.read(query)
    alike = (
        len({arm.url for arm in compared.arms}) == 1 and compared.arms[0].kind == "level"
    )  # their titles alone are ambiguous
    of = f"{compared.arms[0].runs[0].campaign}: " if alike else ""
    first, *others = (f"{arm.title} ({letter})" for letter, arm in zip(LETTERS, compared.arms, strict=False))
    return Selection(compared.query(), f"{of}{compared.figure}, {' and '.join(others)} against {first}")


def _of_run(key: Key, query: QueryDict, chart: str) -> Selection:
    run = Run.objects.select_related("campaign").filter(pk=str(key)).first()
    if run is None:
        raise PlanError("address", f"run {key} does not exist", hint="copy the address of a page that opens")
    of = f"run {run.position + 1} of {run.campaign}, {run.label}"
    if chart == "time":
        return _of_time(run, query, of)
    drawn = run_charts.BY_NAME[chart]
    if not drawn.per_step:
        return Selection({}, f"{drawn.title}, {of}")
    steps, step = drawn.steps(run_charts.available(run, [])), query.get("step", "")
    if step not in steps:
        lacks = f"step={step!r} has no {drawn.title.lower()}"
        raise PlanError("address", lacks, hint=_accepted("step=", steps))
    return Selection({"step": step}, f"{drawn.title}, {of}")


def _of_time(run: Run, query: QueryDict, of: str) -> Selection:
    """Return the selection for a chart over time. It names the present panels, because the default panels may
    change."""
    panels = series.panels_of(run)
    unknown = set(query.getlist("panel")) - {panel.key for panel in panels}
    if unknown:
        known = [panel.key for panel in panels]
        raise PlanError(
            "address", f"panel={min(unknown)!r} is not a panel of that run", hint=_accepted("panel=", known)
        )
    try:
        window = time_axis.window(query)
    except ValueError as error:
        raise PlanError("address", str(error), hint="accepted: seconds, such as from=10&to=60") from error
    names = ("step", "from", "to")
    choices = {"panel": [panel.key for panel in series.chosen(panels, query.getlist("panel"))]}
    parameters = {name: query[name] for name in names if query.get(name)}
    begin, end = ("…" if each is None else f"{each:g}" for each in window)
    title = f"{of[:1].upper()}{of[1:]}" + (f", {parameters['step']}" if "step" in parameters else "")
    return Selection(choices | parameters, title + (f", {begin} to {end} s" if window != (None, None) else ""))


def _of_host(key: Key, query: QueryDict, chart: str) -> Selection:
    """Return the selection of the named spec, or of the one that ran most often."""
    host = Host.objects.filter(name=str(key)).first()
    if host is None:
        raise PlanError("address", f"host {key} does not exist", hint="copy the address of a page that opens")
    digest = query.get("baseline", "")
    repeated = baselines(host, digest)
    if not repeated:
        known = [baseline.digest for baseline in baselines(host)] if digest else []
        hint = _accepted("baseline=", known)
        raise PlanError("address", f"baseline={digest!r} was not run repeatedly on {host}", hint=hint)
    return Selection({"baseline": repeated[0].digest}, f"{repeated[0].title} on {host} over time")


def _accepted(name: str, known: Iterable[str]) -> str:
    return "accepted: " + (", ".join(f"{name}{each}" for each in known) or "none: the page has no such chart")


PAGES: dict[str, ChartPage] = {
    "campaign_explore": ChartPage(
        "explorer",
        "/campaigns/ID/explore/?x=FACTOR",
        {"explorer": Chart("Explorer", "campaign_explore_figure", csv="campaign_explore_csv")},
        _of_explorer,
        Campaign,
    ),
    "compare": ChartPage(
        "comparison",
        "/compare/?of=A&of=B",
        {
            "runs": Chart("Runs", "compare_figure", ("runs",), csv="compare_csv"),
            "interval": Chart("Difference and margin", "compare_figure", ("interval",), csv="compare_csv", low=True),
            "ecdf": Chart("Distribution", "compare_figure", ("ecdf",), csv="compare_csv", low=True),
        },
        _of_comparison,
    ),
    "campaign_detail": ChartPage(
        "campaign",
        "/campaigns/ID/",
        {
            "levels": Chart("Runs of each level", "campaign_figure", csv="campaign_csv"),
            "differences": Chart(
                "Differences", "campaign_figure", parameters={"chart": "differences"}, csv="campaign_csv", low=True
            ),
            "spread": Chart("Distribution of latencies", "campaign_spread", csv="campaign_spread_csv"),
        },
        _of_campaign,
        Campaign,
    ),
    "run_detail": ChartPage(
        "run",
        "/runs/ID/",
        {
            each.name: Chart(each.title, each.figure, each.args, csv=each.csv, low=each.low)
            for each in run_charts.RUN_CHARTS
        },
        _of_run,
        Run,
    ),
    "host_detail": ChartPage(
        "host",
        "/hosts/NAME/",
        {"baseline": Chart("Repeat of the same level", "baseline_figure", chosen="baseline", low=True)},
        _of_host,
        Host,
        by="name",
    ),
}
