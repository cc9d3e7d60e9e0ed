"""Pages of searches: the list, the form, one search with its trials, and the buttons."""

from __future__ import annotations

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
from apps.accounts.web.asked import whole
from apps.accounts.web.pages import attempt, blame, keyset_page, needs, page, team_asked
from apps.campaigns.models import Campaign
from apps.results.charts import theme
from apps.results.exchange import exports
from apps.results.pages.figures import as_json
from apps.searches import charts, presets, queries, rounds, services, space
from apps.searches.forms import SearchForm
from apps.searches.models import Search
from common.errors import PlanError

SHOWN = 50
HEAD = ("trial", "state", "reason", "blocks", "percent", "low", "high")
FIRST = {"candidates": 4, "blocks": 1, "finalists": 2, "confirmation_blocks": 5, "budget_runs": 75}


@needs(Role.VIEWER)
def search_list(request: HttpRequest) -> HttpResponse:
    wanted, team = request.GET.get("q", "").strip(), team_asked(request)
    rows = queries.listed()
    rows = rows.filter(name__icontains=wanted) if wanted else rows
    rows = rows if team is None else rows.filter(queries.of_team(team))
    found = keyset_page(request, rows, ("-created_at", "-pk"), SHOWN)
    return page(request, "searches/list.html", {"rows": found.rows, "pages": found, "q": wanted})


@needs(Role.OPERATOR, somewhere=True)
def search_add(request: HttpRequest) -> HttpResponse:
    """`?campaign=` names the campaign whose baseline is to be beaten."""
    campaign = _campaign(request)
    require(user_of(request), Role.OPERATOR, "create search", on=campaign)
    facts = campaign.host.facts or {}
    offered = presets.presets() if facts else {}
    asked = offered.get(request.GET.get("space", ""))
    first = {"name": campaign.name[:80], "space": "\n".join(asked.scaled(facts)) if asked else "", **FIRST}
    form = SearchForm(request.POST or None, initial=first)
    if form.is_bound and form.is_valid():
        try:
            search = services.create_search(campaign, by=user_of(request), **form.given())
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, f"{search} has started.")
            return redirect("searches_detail", search.pk)
    return page(
        request, "searches/form.html", {"campaign": campaign, "presets": offered.values(), "asked": asked}, form
    )


def _campaign(request: HttpRequest) -> Campaign:
    try:
        key = UUID(request.GET.get("campaign", ""))
    except ValueError as error:
        raise Http404("?campaign= names no campaign") from error
    return get_object_or_404(Campaign.objects.select_related("host", "workload"), pk=key)


@needs(Role.VIEWER)
def search_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    search = get_object_or_404(queries.listed(), pk=pk)
    found = space.read(search.space)
    context: dict[str, Any] = {
        "search": search,
        "campaign": search.campaign,
        "progress": queries.progress(search),
        "dimensions": found.dimensions,
        "risks": found.risks,
        "default": rounds.default_level(search.campaign),
        "rounds": search.rounds.select_related("campaign"),
        "trials": queries.trial_rows(search, search.trials.all()),
        "confirmation": queries.confirmation(search),
        "moving": search.state == Search.State.RUNNING,
    }
    return page(request, "searches/page.html", context)


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def search_figure(request: HttpRequest, pk: UUID, name: str) -> HttpResponse:
    """The trials in their order, or their values as parallel coordinates."""
    search = get_object_or_404(queries.listed(), pk=pk)
    rows, look = queries.trial_rows(search, search.trials.all()), theme(request.GET.get("theme", ""))
    if name == "parallel":
        return as_json(charts.parallel_chart(rows, space.read(search.space), look))
    if name == "trials":
        return as_json(charts.trials_chart(rows, search.campaign.metric, queries.direction(search), look))
    raise Http404(f"{name} is not one of trials, parallel")


@needs(Role.VIEWER)
def search_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """A line for each trial, with its values as the settings have them."""
    search = get_object_or_404(queries.listed(), pk=pk)
    names = [each.name for each in space.read(search.space).dimensions]
    rows = queries.trial_rows(search, search.trials.all())
    lines = exports.csv_lines((*HEAD, *names), (queries.as_line(row, names) for row in rows))
    response = StreamingHttpResponse(lines, content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="trials-{pk}.csv"'
    return response


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def search_action(request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
    search = get_object_or_404(Search.objects.select_related("campaign__host", "owner"), pk=pk)
    by, runs = user_of(request), whole(request.POST.get("runs", "")) or 0
    actions = {
        "pause": (lambda: services.pause_search(search, by=by), "Search paused. The campaign of its round continues."),
        "resume": (lambda: services.resume_search(search, by=by), "Search resumed. You own it now."),
        "stop": (lambda: services.stop_search(search, by=by), "Search stopped."),
        "extend": (lambda: services.extend_search(search, by=by, runs=runs), "Budget extended."),
    }
    if action not in actions:
        raise Http404(f"{action} is not one of {', '.join(actions)}")
    attempt(request, *actions[action])
    return redirect("searches_detail", pk)


urlpatterns = [
    path("searches/", search_list, name="searches_list"),
    path("searches/add/", search_add, name="searches_add"),
    path("searches/<uuid:pk>/", search_detail, name="searches_detail"),
    path("searches/<uuid:pk>/<slug:name>.json", search_figure, name="searches_figure"),
    path("searches/<uuid:pk>/trials.csv", search_csv, name="searches_csv"),
    path("searches/<uuid:pk>/<slug:action>/", search_action, name="searches_action"),
]
