"""Pages that show results: a campaign, a run while it goes on and afterwards, and what can be downloaded of them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.http import quote_etag
from django.views.decorators.cache import cache_control
from django.views.decorators.http import condition

import stats
from apps.accounts.models import Role
from apps.accounts.web.asked import whole
from apps.accounts.web.pages import needs, page
from apps.campaigns.design import roles, steps, stopping, words
from apps.campaigns.execution.schedule import OnHost, by_host
from apps.campaigns.history import history
from apps.campaigns.models import Artefact, Campaign, PartArtefact, Run
from apps.campaigns.pages import lifecycle_views
from apps.campaigns.queries import breaks_at, median_s
from apps.hosts.models import Host
from apps.results import charts
from apps.results.answers.answer_card import AnswerCard, answer_card
from apps.results.answers.baselines import baselines
from apps.results.answers.sentences import by_topic
from apps.results.answers.summary import HEAD
from apps.results.charts import shades
from apps.results.exchange import downloads, exports
from apps.results.exchange.transfer import download
from apps.results.explore.by_design import DIFFERENCES, DesignChart, charts_of
from apps.results.live import news
from apps.results.models import Mark
from apps.results.pages import spread_views
from apps.results.pages.figures import as_json, width_of
from apps.results.queries import CampaignTable
from apps.results.runs import latencies, observed, story, timeline, within
from apps.results.store import samples, series
from apps.results.store.keeper import Keeper

PLACE_DIGITS = 9
NAMED = ("host", "workload", "dataset", "profile__profile", "created_by", "cloned_from")
TABS = ("chart", "settings", "commands", "log", "artefacts", "provenance")
HOSTS = "hosts"  # a further tab of runs over several


@needs(Role.VIEWER)
def campaign_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The whole page, or for htmx the parts of it that change while the campaign runs."""
    campaign = get_object_or_404(Campaign.objects.select_related(*NAMED), pk=pk)
    host = _host(request)
    planned, compares = campaign.state != Campaign.State.DRAFT, campaign.kind != Campaign.Kind.PREPARATION
    whole = Keeper(campaign)
    progress = whole.progress()
    keeper, shown = Keeper(campaign, host) if host else whole, story.runs_of(campaign, host, **_place(request))
    table = keeper.table() if planned and compares else None
    context: dict[str, Any] = {
        "campaign": campaign,
        "progress": progress,
        "breaks": whole.breaks(),
        "table": table,
        **(_drawn(keeper) if table else {}),
        "hosts": _hosts(whole) if planned else [],
        "host": host,
        "of_host": f"?host={host}" if host else "",
        "asked": f"host={host}&" if host else "",
        "chosen": f"host={host}" if host else "",
        "runs": shown.runs,
        "shown": shown,
        "active": campaign.runs.active().first() if campaign.ended_at is None else None,
        "history": history(campaign),
        **_rule(campaign),
        **lifecycle_views.context(campaign),
        **(spread_views.context(request, campaign, host) if table else {}),
        "decisions": getattr(campaign, "decisions").all(),  # noqa: B009 - the room to the right names it
        "as_table": request.GET.get("view") == "table",
        "told": words.told(campaign),
        "cast": roles.named(campaign),
        "threats": words.threats(campaign),
        "exports": [(name, one.about) for name, one in downloads.CAMPAIGN.items() if one.offered(campaign)],
        "moving": (planned and campaign.ended_at is None) or progress.read < progress.done,
    }
    if table:
        card = _card(campaign, table, context["retriable"])
        best = card.level.label if card.level else table.baseline
        context |= {"card": card, "best": card.level.name if card.level else table.baseline}
        context |= {"key_figures": keeper.key_figures(best), **_design_charts(request, campaign, table, host)}
    template = "results/_campaign.html" if request.headers.get("HX-Request") else "results/campaign.html"
    return page(request, template, context | ({} if planned else story.design_of(campaign)))


def _card(campaign: Campaign, table: CampaignTable, retriable: int) -> AnswerCard:
    ended = campaign.ended_at is not None
    return answer_card(
        table,
        ended=ended,
        retriable=retriable,
        run_s=median_s(campaign.runs.all()) if ended else None,
        planned=0 if campaign.kind == Campaign.Kind.IMPORTED else campaign.repetitions,
    )


def _design_charts(request: HttpRequest, campaign: Campaign, table: CampaignTable, host: int | None) -> dict[str, Any]:
    """The charts that fit the design, and the one that ?chart= asks for. The explorer draws all hosts together, so that
    a page of one host has only what the campaign draws."""
    offered = [each for each in charts_of(campaign.factors) if not (host and each.view)]
    if not any(level.verdict for level in table.levels):
        offered = [each for each in offered if each.key != DIFFERENCES]
    asked = request.GET.get("chart", "")
    shown = next((each for each in offered if each.key == asked), offered[0])
    of_host = {"host": host} if host else {}
    state = urlencode({**of_host, "chart": shown.key})
    return {"design_charts": offered, "shown_chart": shown, "state": state, **_drawn_by(campaign, shown, of_host)}


def _drawn_by(campaign: Campaign, shown: DesignChart, of_host: dict[str, int]) -> dict[str, Any]:
    """The address that draws a chart, that of its CSV, and how it is pinned."""
    if shown.view:
        asked = urlencode(shown.view)
        return {
            "chart_figure": f"{reverse('campaign_explore_figure', args=[campaign.pk])}?{asked}",
            "chart_csv": f"{reverse('campaign_explore_csv', args=[campaign.pk])}?{asked}",
            "pinned": {"chart": "explorer", "here": reverse("campaign_explore", args=[campaign.pk]), "chosen": asked},
        }
    asked = urlencode({**of_host, **({"chart": DIFFERENCES} if shown.key == DIFFERENCES else {})})
    return {
        "chart_figure": reverse("campaign_figure", args=[campaign.pk]) + (f"?{asked}" if asked else ""),
        "chart_csv": reverse("campaign_csv", args=[campaign.pk]),
        "pinned": {"chart": shown.key, "here": "", "chosen": urlencode(of_host)},
    }


def _rule(campaign: Campaign) -> dict[str, Any]:
    rule = stopping.read(campaign.stop, campaign.factors, campaign.repetitions)
    if rule is None:
        return {}
    seen = list(campaign.looks.all())
    last = seen[-1] if seen else None
    return {"rule": rule, "looks": seen, "newest_look": last, "spending_words": stats.SPENDING[rule.spending]}


def _host(request: HttpRequest) -> int | None:
    """As ?host= asks for; what is no number asks for none."""
    return whole(request.GET.get("host", ""))


def _place(request: HttpRequest) -> dict[str, int]:
    """From which run on the list goes, as ?after= or ?before= asks for: its place in the order."""
    found = {}
    for name in ("before", "after"):
        asked = request.GET.get(name, "")
        if asked and whole(asked, PLACE_DIGITS) is None:
            raise Http404(f"{name}={asked[:40]} is no place in the order of the runs: a number from 0")
        if asked:
            found[name] = whole(asked) or 0
    return found


def _drawn(keeper: Keeper) -> dict[str, Any]:
    return {
        "levels": keeper.levels_drawn(),
        "judgements": keeper.judgements_drawn(),
        "summary": keeper.summary_drawn(),
    }


def _hosts(keeper: Keeper) -> list[OnHost]:
    """What was imported ran on no host of ours."""
    if keeper.campaign.kind == Campaign.Kind.IMPORTED:
        return []
    return by_host(keeper.campaign, timezone.now(), keeper.hosts())


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def campaign_figure(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The runs of each level, or with ?chart=differences what each level does against the baseline: as it is kept, and
    a browser that has it is told so."""
    keeper = Keeper(get_object_or_404(Campaign.objects.select_related("workload"), pk=pk), _host(request))
    differences, narrow = request.GET.get("chart", "") == DIFFERENCES, width_of(request) < charts.NARROW_PX
    theme = request.GET.get("theme", "")

    def tag(request: HttpRequest) -> str:
        return quote_etag(f"{keeper.key[:32]}-{keeper.host}-{theme == 'dark'}-{differences}-{narrow}")

    def draw(request: HttpRequest) -> HttpResponse:
        return HttpResponse(keeper.figure(theme, differences, narrow), content_type="application/json")

    return condition(etag_func=tag)(draw)(request)


@needs(Role.VIEWER)
def campaign_summary(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """The main figures of every step: a line for each level and figure."""
    table = Keeper(get_object_or_404(Campaign, pk=pk), _host(request)).summary()
    response = StreamingHttpResponse(exports.csv_lines(HEAD, table.rows()), content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="summary-{pk}.csv"'
    return response


@needs(Role.VIEWER)
def campaign_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Every run of the campaign, failed ones included, with all its measurements as columns."""
    return campaign_export(request, pk, "runs.csv")


@needs(Role.VIEWER)
def campaign_export(request: HttpRequest, pk: UUID, name: str) -> HttpResponseBase:
    if name not in downloads.CAMPAIGN:
        raise Http404(f"{name} is not one of {', '.join(downloads.CAMPAIGN)}")
    return download(downloads.CAMPAIGN[name], get_object_or_404(exports.campaigns(), pk=pk), name)


@needs(Role.VIEWER)
def run_export(request: HttpRequest, pk: UUID, name: str) -> HttpResponseBase:
    if name not in downloads.RUN:
        raise Http404(f"{name} is not one of {', '.join(downloads.RUN)}")
    return download(downloads.RUN[name], get_object_or_404(Run, pk=pk), name)


@needs(Role.VIEWER)
def host_baselines(request: HttpRequest, name: str) -> HttpResponse:
    """A part of the host's page."""
    found = baselines(get_object_or_404(Host, name=name))
    told = [(each, by_topic(each.told())) for each in found]
    return page(request, "results/_baselines.html", {"name": name, "baselines": told})


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def baseline_figure(request: HttpRequest, name: str, digest: str) -> HttpResponse:
    """All runs of one spec on this host in the order of time, and where their level changed."""
    found = baselines(get_object_or_404(Host, name=name), digest)
    if not found:
        raise Http404(f"{digest[:12]} was not run often enough on {name}")
    return as_json(charts.baseline_chart(found[0], charts.theme(request.GET.get("theme", ""))))


@needs(Role.VIEWER)
def run_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    run = _run_or_part(pk)
    tab, tabs = request.GET.get("tab", "chart"), (*TABS, *((HOSTS,) if run.campaign.roles else ()))
    if tab not in tabs:
        raise Http404(f"{tab} is not one of {', '.join(tabs)}")
    run.took = run.ended_at - run.started_at if run.ended_at and run.started_at else None  # type: ignore[attr-defined]
    context = {"run": run, "tab": tab, "tabs": tabs, "now": timezone.now(), **_around(run), **_tab(run, tab)}
    if tab == HOSTS:
        context |= story.hosts_of(run, request.GET.get("part", ""))
    context["breaks"] = breaks_at(run)
    context["unsteady"] = story.unsteady_of(run) if any("until" in step for step in run.spec["steps"]) else []
    context["as_table"] = request.GET.get("view") == "table"
    if tab == "chart":
        context["silent_s"] = news.silent_after(run)
        context |= _panels(request, run, context["as_table"]) | {"data": story.data_of(run), "run_id": str(run.pk)}
    return page(request, "results/run.html", context)


def _run_or_part(pk: UUID) -> Run:
    """Leases and troubles of a host name the job that it had, which may be another host's run."""
    runs = Run.objects.select_related("campaign__dataset", "campaign__host", "host", "facts")
    return runs.filter(pk=pk).first() or get_object_or_404(runs, parts=pk)


def _panels(request: HttpRequest, run: Run, as_table: bool) -> dict[str, Any]:
    """What the chart tab shows besides measurements: which panels there are, and of the chosen ones the samples."""
    panels, keys, steps = series.panels_of(run), request.GET.getlist("panel"), timeline.steps_of(run)
    shown = series.chosen(panels, keys)
    sources: dict[str, list[tuple[series.Panel, bool]]] = {}
    for panel in panels:
        sources.setdefault(panel.source, []).append((panel, panel in shown))
    context = {"sources": sources, "panels": panels, "shown": shown, "steps": steps}
    kept = {name: request.GET[name] for name in ("step", "from", "to") if request.GET.get(name)}
    chosen = urlencode({"panel": keys, **kept}, doseq=True)
    context |= {"step": kept.get("step", ""), "part": {name: kept[name] for name in ("from", "to") if name in kept}}
    context["whole"] = urlencode({"panel": keys, "step": context["step"]}, doseq=True)
    figure = reverse("run_figure", args=[run.pk]) + (f"?{chosen}" if chosen else "")
    context |= {"chosen": chosen, "figure": figure}
    context |= {"costs": observed.costs_of(run), "totals": observed.totals_of(run), "marks": _in_order(run, steps)}
    return context | ({"rows": story.samples_of(run, shown, _axis(request, steps))} if as_table else {})


def _in_order(run: Run, steps: list[timeline.Step]) -> list[Mark]:
    """The marks of the steps as they followed each other."""
    places = {step.name: place for place, step in enumerate(steps)}
    return sorted(run.marks.all(), key=lambda mark: (places.get(mark.step, len(places)), mark.t))


def _axis(request: HttpRequest, steps: list[timeline.Step]) -> timeline.Axis:
    """As ?step=, ?from= and ?to= ask for; what is no time asks for nothing."""
    try:
        window = timeline.window(request.GET)
    except ValueError:
        window = (None, None)
    return timeline.axis_of(steps, request.GET.get("step", ""), *window)


def _axis_of_all(request: HttpRequest, run: Run) -> timeline.Axis:
    """All steps one after another, whichever ?step= names, and the part of the time that is asked for."""
    whole = _axis(request, [])
    return timeline.axis_of(timeline.steps_of(run), "", whole.begin, whole.end)


def _around(run: Run) -> dict[str, Any]:
    near = run.campaign.runs.filter(position__in=(run.position - 1, run.position + 1)).only("pk", "position")
    by_place = {each.position: each for each in near}
    return {"previous": by_place.get(run.position - 1), "following": by_place.get(run.position + 1)}


def _tab(run: Run, tab: str) -> dict[str, Any]:
    """Only what the tab shows is read."""
    if tab == "chart":
        measures = run.campaign.kind != Campaign.Kind.PREPARATION
        drawn = measures and (run.ingested_at is None or run.series.exists())
        closed = [name for name, loop in steps.loops(run.spec).items() if loop == "closed"]
        found = sorted(run.measurements.all(), key=lambda row: (row.step, latencies.natural_key(row.name)))
        return {
            "measurements": found,
            "sentence": story.sentence_of(run),
            "drawn": drawn,
            "closed": closed,
            "within": by_topic(within.told(run.within.all(), found)),
            "latencies": latencies.steps_of(run),
            "statements": any("statement:" in row.name for row in found),
        }
    if tab == "settings":
        return {"proof": story.proof_of(run)}
    if tab == "commands":
        return {"commands": story.commands_of(run)}
    if tab == "log":
        return {"events": run.events.exclude(kind__in=("sample", "progress")).order_by("seq")[:1000]}
    if tab == "artefacts":
        return {"artefacts": story.artefacts_of(run)}
    return {"timings": story.timings_of(run)}


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def run_figure(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The panels named by ?panel=, or those that are shown unasked; of the steps and the time that are asked for."""
    run = get_object_or_404(Run.objects.select_related("facts"), pk=pk)
    panels = series.chosen(series.panels_of(run), request.GET.getlist("panel"))
    axis = _axis(request, timeline.steps_of(run))
    columns, look = samples.run_columns(run, panels, axis), charts.theme(request.GET.get("theme", ""))
    figure = charts.run_chart(panels, columns, list(run.marks.all()), axis, look, width_of(request))
    figure = shades.laid(figure, shades.within_run(run.within.all(), axis, look))
    # What a page needs to add newer samples: of which event the newest is that can be here, when its step began, and
    # which of the rows are means of others.
    figure |= {"seq": run.last_seq, "steps": axis.offsets(), "means": samples.means_of(run, panels, axis)}
    return as_json(figure)


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def run_latency(request: HttpRequest, pk: UUID, name: str) -> HttpResponse:
    """How its latencies were spread: `nines`, `statements`, or `heat` of the step that ?step= names."""
    run, look = get_object_or_404(Run, pk=pk), charts.theme(request.GET.get("theme", ""))
    if name == "nines":
        return as_json(charts.nines_chart(latencies.curves_of(run), look))
    if name == "statements":
        return as_json(charts.statement_chart(latencies.statements_of(run), look, width_of(request)))
    axis = _axis_of_all(request, run) if name == "heat" else None
    heat = latencies.heat_of(run, request.GET.get("step", ""), axis) if axis else None
    if axis is None or heat is None:
        raise Http404(f"{name} of that step is not one of nines, statements, and heat of a step that has a log")
    return as_json(charts.heat_chart(heat, axis, look) | {"steps": axis.offsets()})


@needs(Role.VIEWER)
def run_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """All samples, or those of the panels named by ?panel=, of the steps and the time that are asked for."""
    run = get_object_or_404(Run.objects.select_related("facts"), pk=pk)
    panels, keys = series.panels_of(run), request.GET.getlist("panel")
    shown = series.chosen(panels, keys) if keys else panels
    axis = _axis(request, timeline.steps_of(run))
    head, rows, _ = story.table_of(samples.run_columns(run, shown, axis), axis)
    response = StreamingHttpResponse(exports.csv_lines(head, rows), content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="run-{run.pk}.csv"'
    return response


@needs(Role.VIEWER)
def run_artefact(request: HttpRequest, pk: UUID, artefact: int) -> HttpResponse:
    """The raw bytes, as a download that no browser interprets."""
    run = get_object_or_404(Run, pk=pk)
    return _file(request, run, get_object_or_404(run.artefacts, pk=artefact))


@needs(Role.VIEWER)
def part_artefact(request: HttpRequest, pk: UUID, artefact: int) -> HttpResponse:
    """The same of what another host's tools wrote for this run."""
    run = get_object_or_404(Run, pk=pk)
    return _file(request, run, get_object_or_404(PartArtefact, part__run=run, pk=artefact))


def _file(request: HttpRequest, run: Run, found: Artefact | PartArtefact) -> HttpResponse:
    if found.content is None:
        messages.error(request, f"{found.path} was not fetched: it is damaged, or too large ({found.size} bytes).")
        return redirect("run_detail", run.pk)
    name = PurePosixPath(found.path).as_posix().replace("/", "-").replace('"', "")
    response = HttpResponse(bytes(found.content), content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="{run.position + 1}-{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


urlpatterns = [
    path("campaigns/<uuid:pk>/", campaign_detail, name="campaign_detail"),
    path("campaigns/<uuid:pk>/chart.json", campaign_figure, name="campaign_figure"),
    path("campaigns/<uuid:pk>/summary.csv", campaign_summary, name="campaign_summary"),
    path("campaigns/<uuid:pk>/runs.csv", campaign_csv, name="campaign_csv"),
    path("campaigns/<uuid:pk>/export/<str:name>", campaign_export, name="campaign_export"),
    path("baselines/<str:name>/", host_baselines, name="host_baselines"),
    path("baselines/<str:name>/<slug:digest>/chart.json", baseline_figure, name="baseline_figure"),
    path("runs/<uuid:pk>/", run_detail, name="run_detail"),
    path("runs/<uuid:pk>/export/<str:name>", run_export, name="run_export"),
    path("runs/<uuid:pk>/chart.json", run_figure, name="run_figure"),
    path("runs/<uuid:pk>/latency/<slug:name>.json", run_latency, name="run_latency"),
    path("runs/<uuid:pk>/samples.csv", run_csv, name="run_csv"),
    path("runs/<uuid:pk>/artefacts/<int:artefact>/", run_artefact, name="run_artefact"),
    path("runs/<uuid:pk>/parts/<int:artefact>/", part_artefact, name="part_artefact"),
]
