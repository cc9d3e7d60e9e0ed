"""Pages of a run, active or ended: its charts, its tabs, and its downloads."""

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
from django.utils.http import content_disposition_header
from django.views.decorators.cache import cache_control

from apps.accounts.models import Role
from apps.campaigns.design import steps
from apps.campaigns.models import Artefact, Campaign, Run
from apps.campaigns.queries import are_details_dropped, breaks_at
from apps.results import charts
from apps.results.answers.judgements import neighbours
from apps.results.answers.sentences import by_topic
from apps.results.exchange import downloads, exports
from apps.results.exchange.transfer import download
from apps.results.explore import run_charts
from apps.results.live import news
from apps.results.models import Mark
from apps.results.pages.figures import as_json, width_of
from apps.results.runs import key_figures, latencies, observed, page_content, stability, time_axis
from apps.results.runs.fidelity import fidelity_of
from apps.results.store import samples, series
from apps.web.pages import needs, page

TABS = ("chart", "settings", "commands", "log", "artefacts", "provenance")
HOSTS = "hosts"  # another tab, for runs over several hosts


@needs(Role.VIEWER)
def run_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    run = _run_or_part(pk)
    tab, tabs = request.GET.get("tab", "chart"), (*TABS, *((HOSTS,) if run.campaign.roles else ()))
    if tab not in tabs:
        raise Http404(f"{tab} is not one of {', '.join(tabs)}")
    run.took = run.ended_at - run.started_at if run.ended_at and run.started_at else None  # type: ignore[attr-defined]
    context = {"run": run, "tab": tab, "tabs": tabs, "now": timezone.now(), **_around(run), **_tab(run, tab)}
    if tab == HOSTS:
        context |= page_content.hosts_of(run, request.GET.get("part", ""))
    context["breaks"], context["dropped"] = breaks_at(run), are_details_dropped(run)
    context["unsteady"] = page_content.unsteady_of(run) if any("until" in step for step in run.spec["steps"]) else []
    context["as_table"] = request.GET.get("view") == "table"
    if tab == "chart":
        context["silent_s"] = news.silent_after(run)
        context |= _panels(request, run, context["as_table"])
        context |= {"data": page_content.data_of(run), "run_id": str(run.pk)}
        part = {} if context["step"] else context["part"]
        context["charts"] = run_charts.charts_of_run(run, context["has"], part)
    return page(request, "results/run/page.html", context)


def _run_or_part(pk: UUID) -> Run:
    """Return the run, or the run of a part with this key: leases and problems of a host name its job, which may be a
    part."""
    runs = Run.objects.select_related("campaign__dataset", "campaign__host", "host", "facts")
    return runs.filter(pk=pk).first() or get_object_or_404(runs, parts=pk)


def _panels(request: HttpRequest, run: Run, as_table: bool) -> dict[str, Any]:
    """Return the content of the chart tab besides measurements: the panels, and the samples of the chosen ones."""
    panels, keys, steps = series.panels_of(run), request.GET.getlist("panel"), time_axis.steps_of(run)
    shown = series.chosen(panels, keys)
    sources: dict[str, list[tuple[series.Panel, bool]]] = {}
    for panel in panels:
        sources.setdefault(panel.source, []).append((panel, panel in shown))
    context: dict[str, Any] = {"sources": sources, "panels": panels, "shown": shown, "steps": steps}
    choices = {name: request.GET[name] for name in ("step", "from", "to") if request.GET.get(name)}
    chosen = urlencode({"panel": keys, **choices}, doseq=True)
    context |= {
        "step": choices.get("step", ""),
        "part": {name: choices[name] for name in ("from", "to") if name in choices},
    }
    context["whole"] = urlencode({"panel": keys, "step": context["step"]}, doseq=True)
    figure = reverse("run_figure", args=[run.pk]) + (f"?{chosen}" if chosen else "")
    context |= {"chosen": chosen, "figure": figure}
    context |= {"fidelity": fidelity_of(run), "neighbours": neighbours.activity(run)}
    context["is_remote"] = (run.spec["target"] or {}).get("kind") == "remote_server"
    context |= {"costs": observed.costs_of(run), "totals": observed.totals_of(run)}
    context |= {"marks": _in_order(run, steps)}
    return context | ({"rows": page_content.samples_of(run, shown, _axis(request, steps))} if as_table else {})


def _in_order(run: Run, steps: list[time_axis.Step]) -> list[Mark]:
    """Return the marks of all steps, in order."""
    positions = {step.name: place for place, step in enumerate(steps)}
    return sorted(run.marks.all(), key=lambda mark: (positions.get(mark.step, len(positions)), mark.t))


def _axis(request: HttpRequest, steps: list[time_axis.Step]) -> time_axis.Axis:
    """Return the axis for ?step=, ?from= and ?to=."""
    return time_axis.axis_of(steps, request.GET.get("step", ""), *time_axis.valid_window(request.GET))


def _around(run: Run) -> dict[str, Any]:
    near = run.campaign.runs.filter(position__in=(run.position - 1, run.position + 1)).only("pk", "position")
    by_place = {each.position: each for each in near}
    return {"previous": by_place.get(run.position - 1), "following": by_place.get(run.position + 1)}


def _tab(run: Run, tab: str) -> dict[str, Any]:
    """Return the content of a tab. Only what the tab shows is read."""
    if tab == "chart":
        measures = run.campaign.kind != Campaign.Kind.PREPARATION
        drawn = measures and (run.ingested_at is None or run.series.exists())
        closed = [name for name, loop in steps.loops(run.spec).items() if loop == "closed"]
        measurements = sorted(run.measurements.all(), key=lambda row: (row.step, latencies.natural_key(row.name)))
        return {
            "measurements": measurements,
            "sentence": page_content.sentence_of(run),
            "drawn": drawn,
            "closed": closed,
            "stability": by_topic(stability.findings(run.step_stabilities.all(), measurements)),
            "key_figures": key_figures.of_run(run, measurements),
            "has": run_charts.available(run, measurements),
        }
    if tab == "settings":
        return {"proof": page_content.proof_of(run)}
    if tab == "commands":
        return {"commands": page_content.commands_of(run)}
    if tab == "log":
        return {"events": page_content.log_of(run)}
    if tab == "artefacts":
        return {"artefacts": page_content.artefacts_of(run)}
    return {"timings": page_content.timings_of(run)}


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def run_figure(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the figure of the panels in ?panel=, or of the default ones, for the requested steps and time."""
    run = get_object_or_404(Run.objects.select_related("facts"), pk=pk)
    return _drawn(request, run, run_charts.BY_NAME["time"], _axis(request, time_axis.steps_of(run)))


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def run_latency(request: HttpRequest, pk: UUID, name: str) -> HttpResponse:
    """Return a chart of run_charts.py by its name, of the step in ?step= if it belongs to a step."""
    chart = run_charts.BY_NAME.get(name)
    if chart is None:
        raise Http404(f"{name} is not one of {', '.join(run_charts.BY_NAME)}")
    return _drawn(request, get_object_or_404(Run, pk=pk), chart)


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def run_spread(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the chart of fio's distributions."""
    return _drawn(request, get_object_or_404(Run, pk=pk), run_charts.BY_NAME["spread"])


def _drawn(
    request: HttpRequest, run: Run, chart: run_charts.RunChart, axis: time_axis.Axis | None = None
) -> HttpResponse:
    """Return the drawn chart on this axis, by default on the axis of all steps."""
    step, part = request.GET.get("step", ""), _axis(request, [])
    whole = time_axis.steps_of(run) if chart.over_time and axis is None else []
    axis = axis or time_axis.axis_of(whole, "", part.begin, part.end)
    theme = charts.theme(request.GET.get("theme", ""))
    drawing = run_charts.Drawing(step, axis, theme, width_of(request), request.GET.getlist("panel"))
    figure = chart.draw(run, drawing)
    if figure is None:
        raise Http404(f"{chart.title}: step {step[:40]!r} of this run has no data")
    return as_json(figure)


@needs(Role.VIEWER)
def run_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Download all samples, or those of the panels in ?panel=, for the requested steps and time."""
    run = get_object_or_404(Run.objects.select_related("facts"), pk=pk)
    panels, keys = series.panels_of(run), request.GET.getlist("panel")
    shown = series.chosen(panels, keys) if keys else panels
    axis = _axis(request, time_axis.steps_of(run))
    head, rows, _ = page_content.table_of(samples.run_columns(run, shown, axis), axis)
    response = StreamingHttpResponse(exports.csv_lines(head, rows), content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="run-{run.pk}.csv"'
    return response


@needs(Role.VIEWER)
def run_artefact(request: HttpRequest, pk: UUID, artefact: int) -> HttpResponse:
    """Download the raw bytes. Browsers do not render them."""
    run = get_object_or_404(Run, pk=pk)
    return _file(request, run, get_object_or_404(run.artefacts, pk=artefact))


@needs(Role.VIEWER)
def part_artefact(request: HttpRequest, pk: UUID, artefact: int) -> HttpResponse:
    """Download a file that the tools of another host wrote for this run."""
    run = get_object_or_404(Run, pk=pk)
    return _file(request, run, get_object_or_404(Artefact, part__run=run, pk=artefact))


def _file(request: HttpRequest, run: Run, artefact: Artefact) -> HttpResponse:
    if artefact.content is None:
        messages.error(request, f"{artefact.path} was not fetched: it is damaged or too large ({artefact.size} bytes).")
        return redirect("run_detail", run.pk)
    name = f"{run.position + 1}-{PurePosixPath(artefact.path).as_posix().replace('/', '-')}"
    response = HttpResponse(bytes(artefact.content), content_type="application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    return response


@needs(Role.VIEWER)
def run_export(request: HttpRequest, pk: UUID, name: str) -> HttpResponseBase:
    if name not in downloads.RUN:
        raise Http404(f"{name} is not one of {', '.join(downloads.RUN)}")
    return download(downloads.RUN[name], get_object_or_404(Run, pk=pk), name)


urlpatterns = [
    path("runs/<uuid:pk>/", run_detail, name="run_detail"),
    path("runs/<uuid:pk>/export/<str:name>", run_export, name="run_export"),
    path("runs/<uuid:pk>/chart.json", run_figure, name="run_figure"),
    path("runs/<uuid:pk>/latency/<slug:name>.json", run_latency, name="run_latency"),
    path("runs/<uuid:pk>/fio.json", run_spread, name="run_spread"),
    path("runs/<uuid:pk>/samples.csv", run_csv, name="run_csv"),
    path("runs/<uuid:pk>/artefacts/<int:artefact>/", run_artefact, name="run_artefact"),
    path("runs/<uuid:pk>/parts/<int:artefact>/", part_artefact, name="part_artefact"),
]
