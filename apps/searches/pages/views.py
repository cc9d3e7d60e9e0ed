"""Pages of searches: the list, the form, one search with its trials, and the buttons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_POST

from apps.accounts.models import Role
from apps.accounts.services import require, user_of
from apps.campaigns.design import steps
from apps.campaigns.models import Campaign
from apps.request_values import whole
from apps.results.charts import theme
from apps.results.charts.themes import WIDTH_PX
from apps.results.exchange import exports
from apps.results.pages.figures import as_json
from apps.searches import budget, importance, presets, queries, results, services, space
from apps.searches.models import Search
from apps.searches.pages import charts
from apps.searches.pages.design_pairs import design_pairs
from apps.searches.pages.forms import SearchForm
from apps.searches.pages.pareto import pareto_chart
from apps.web.pages import attempt, blame, keyset_page, needs, page, row_in_url, team_in_url
from common.errors import PlanError

SHOWN = 50
HEAD = ("trial", "state", "reason", "blocks", "percent", "low", "high")
SECOND_HEAD = ("second_percent", "second_low", "second_high", "front")
PICKED = "Saved. The next confirmation uses your choice."
CHANGED = "Settings changed. The next round uses them."
INITIAL = {"budget_runs": 75} | {name: getattr(Search(), name) for name in services.SIZES}


@needs(Role.VIEWER)
def search_list(request: HttpRequest) -> HttpResponse:
    name, team = request.GET.get("q", "").strip(), team_in_url(request)
    rows = queries.listed()
    rows = rows.filter(name__icontains=name) if name else rows
    rows = rows if team is None else rows.filter(queries.of_team(team))
    pages = keyset_page(request, rows, ("-created_at", "-pk"), SHOWN)
    return page(request, "searches/list.html", {"rows": pages.rows, "pages": pages, "q": name})


@needs(Role.OPERATOR, somewhere=True)
def search_add(request: HttpRequest) -> HttpResponse:
    """The form. `?campaign=` is the campaign whose baseline is the default, `?space=` the named space to fill in."""
    campaign = row_in_url(request, Campaign.objects.select_related("host", "workload"), "campaign")
    require(user_of(request), Role.OPERATOR, "create search", on=campaign)
    facts = campaign.host.facts or {}
    known = presets.presets() if facts else {}
    chosen = known.get(request.GET.get("space", ""))
    lines = chosen.scaled(facts) if chosen else []
    form = SearchForm(request.POST or None, initial={**INITIAL, "name": campaign.name[:80], "space": "\n".join(lines)})
    if form.is_bound and form.is_valid():
        try:
            search = services.create_search(campaign, by=user_of(request), **form.fields_of_search())
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, f"{search} has started.")
            return redirect("searches_detail", search.pk)
    metrics = [metric for metric in steps.metrics(campaign.steps) if metric != campaign.metric]
    context = {"campaign": campaign, "presets": known.values(), "chosen": chosen, "metrics": metrics}
    return page(request, "searches/form.html", context, form)


@needs(Role.VIEWER)
def search_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    search = get_object_or_404(queries.listed(), pk=pk)
    varied = space.read(search.space)
    context: dict[str, Any] = {
        "search": search,
        "campaign": search.campaign,
        "budget": budget.of(search),
        "dimensions": varied.dimensions,
        "risks": varied.risks,
        "design": design_pairs(search, varied),
        "rounds": search.rounds.select_related("campaign"),
        "trials": queries.trial_rows(search, search.trials.all(), queries.front_of(search)),
        "confirmation": queries.confirmation(search),
        "moving": search.state == Search.State.RUNNING,
    }
    return page(request, "searches/page.html", context)


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def search_figure(request: HttpRequest, pk: UUID, name: str) -> HttpResponse:
    """The trials in their order or by both metrics, their values as parallel coordinates or setting by setting, or
    which settings matter."""
    search = get_object_or_404(queries.listed(), pk=pk)
    colours = theme(request.GET.get("theme", ""))
    if name == "pareto" and (front := queries.front_of(search)):
        named = list(zip(results.metric_names(search), results.objectives(search), strict=True))
        return as_json(pareto_chart(queries.trial_rows(search, search.trials.all(), front), front, named, colours))
    rows = queries.trial_rows(search, search.trials.all())
    if name == "parallel":
        return as_json(charts.parallel_chart(rows, space.read(search.space), colours))
    if name == "trials":
        return as_json(charts.trials_chart(rows, search.campaign.metric, results.direction(search), colours))
    if name == "slices":
        width = whole(request.GET.get("width", "")) or WIDTH_PX
        return as_json(charts.slices_chart(rows, space.read(search.space), search.campaign.metric, width, colours))
    if name == "importance":
        return as_json(charts.importance_chart(importance.importance_of(search).settings, colours))
    raise Http404(f"{name} is not one of trials, parallel, slices, importance, pareto (with two metrics)")


@needs(Role.VIEWER)
def search_importance(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A part of the page: chart and table of importance, or why there is none yet."""
    search = get_object_or_404(queries.listed(), pk=pk)
    return page(
        request, "searches/_importance.html", {"search": search, "importance": importance.importance_of(search)}
    )


@needs(Role.VIEWER)
def search_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """A line for each trial, with its values in the units of the settings."""
    search = get_object_or_404(queries.listed(), pk=pk)
    names = [dimension.name for dimension in space.read(search.space).dimensions]
    rows = queries.trial_rows(search, search.trials.all(), queries.front_of(search))
    head = (*HEAD, *(SECOND_HEAD if search.second_metric else ()), *search.constraints, *names)
    lines = exports.csv_lines(head, (queries.as_line(row, names) for row in rows))
    response = StreamingHttpResponse(lines, content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="trials-{pk}.csv"'
    return response


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def search_action(request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
    search = get_object_or_404(Search.objects.select_related("campaign__host", "owner"), pk=pk)
    by, (runs, minutes) = user_of(request), (whole(request.POST.get(name, "")) or 0 for name in ("runs", "minutes"))
    actions = {
        "pause": (lambda: services.pause_search(search, by=by), "Search paused. The campaign of its round continues."),
        "resume": (lambda: services.resume_search(search, by=by), "Search resumed. You own it now."),
        "stop": (lambda: services.stop_search(search, by=by), "Search stopped."),
        "change": (lambda: services.change_search(search, by=by, **_change(request.POST)), CHANGED),
        "pick": (lambda: services.pick_trials(search, by=by, trials=_picked(request.POST.get("trials", ""))), PICKED),
        "extend": (lambda: services.extend_search(search, by=by, runs=runs, minutes=minutes), "Budget extended."),
    }
    if action not in actions:
        raise Http404(f"{action} is not one of {', '.join(actions)}")
    attempt(request, *actions[action])
    return redirect("searches_detail", pk)


def _picked(text: str) -> list[int]:
    """The numbers of trials that a user entered. PlanError if something else is among them."""
    parts = text.replace(",", " ").split()
    numbers = [whole(part) for part in parts]
    if None in numbers:
        raise PlanError("trials", f"{parts[numbers.index(None)]!r} is not the number of a trial", hint="such as 3, 17")
    return [number for number in numbers if number is not None]


def _change(data: Mapping[str, str]) -> dict[str, Any]:
    """The fields of services.change_search: settings to add, and one to fix (or to vary again without a value)."""
    name, value = data.get("setting", "").strip(), data.get("value", "").strip()
    fix, free = ({name: value} if name and value else {}), ([name] if name and not value else [])
    return {"add": data.get("add", "").splitlines(), "fix": fix, "free": free}


urlpatterns = [
    path("searches/", search_list, name="searches_list"),
    path("searches/add/", search_add, name="searches_add"),
    path("searches/<uuid:pk>/", search_detail, name="searches_detail"),
    path("searches/<uuid:pk>/importance/", search_importance, name="searches_importance"),
    path("searches/<uuid:pk>/<slug:name>.json", search_figure, name="searches_figure"),
    path("searches/<uuid:pk>/trials.csv", search_csv, name="searches_csv"),
    path("searches/<uuid:pk>/<slug:action>/", search_action, name="searches_action"),
]
