"""Pages of the explorer: the URL defines what it shows, as a figure and as rows."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.views.decorators.cache import cache_control

from apps.accounts.models import Role
from apps.campaigns.models import Campaign
from apps.results import charts
from apps.results.exchange import exports
from apps.results.explore import explorer, run_lines
from apps.results.pages.figures import width_of
from apps.results.store.campaign_cache import CampaignCache
from apps.web.pages import UNPROCESSABLE, needs, page, spoken
from common.errors import PlanError


@needs(Role.VIEWER)
def explore(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the explorer; for a view that is not possible the reason, with the choices of the request."""
    campaign = get_object_or_404(Campaign.objects.select_related("workload"), pk=pk)
    if not campaign.metric or not campaign.factors:
        return page(request, "results/explore/explorer.html", {"campaign": campaign})
    view, explored, refusal = explorer.read(campaign, {}), None, ""
    try:
        view = explorer.read(campaign, request.GET)
        explored = _explored(campaign, view)
    except PlanError as error:
        refusal = spoken(error)
    context = {"explored": explored, "refusal": refusal, "as_table": request.GET.get("view") == "table"}
    answer = page(request, "results/explore/explorer.html", {"campaign": campaign, **context, **_form(campaign, view)})
    answer.status_code = UNPROCESSABLE if refusal and request.GET else 200
    return answer


def _explored(campaign: Campaign, view: explorer.View) -> explorer.Explored:
    """Return the content from the cache, without its runs."""
    what = f"explored {sorted(view.query().items())}"
    cached = CampaignCache(campaign).cached_query(what, lambda: explorer.explore(campaign, view).bare())
    return msgspec.json.decode(cached, type=explorer.Explored)


def _form(campaign: Campaign, view: explorer.View) -> dict[str, Any]:
    """Return the choices and their URLs."""
    factors = explorer.factors_of(campaign)
    query = urlencode(view.query())
    axes = [*((name, name) for name in factors), *explorer.AXES.items()]
    aside = [("", "none"), *((name, name) for name in factors), (explorer.HOST, "host")]
    return {
        "view": view,
        "chosen": query,
        "figures": [f"{row.step}.{row.name}" for row in explorer.figures_of(campaign)],
        "axes": axes,
        "asides": aside,
        "shapes": explorer.SHAPES.items(),
        "scales": explorer.SCALES.items(),
        "bases": factors.get(view.x, []) if view.scale == "relative" else [],
        "filters": [
            (name, levels, dict(view.only).get(name, "")) for name, levels in factors.items() if len(levels) > 1
        ],
        "figure_url": f"{reverse('campaign_explore_figure', args=[campaign.pk])}?{query}",
        "csv_url": f"{reverse('campaign_explore_csv', args=[campaign.pk])}?{query}",
    }


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def explore_figure(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the figure from the cache, or 422 with the reason if the view is not possible."""
    campaign = get_object_or_404(Campaign.objects.select_related("workload"), pk=pk)
    theme, narrow = charts.theme(request.GET.get("theme", "")), width_of(request) < charts.NARROW_PX
    try:
        view = explorer.read(campaign, request.GET)
        what = f"explore {sorted(view.query().items())} {theme is charts.DARK} {narrow}"
        cached = CampaignCache(campaign).cached_query(
            what, lambda: charts.explorer_chart(explorer.explore(campaign, view), theme, narrow)
        )
    except PlanError as error:
        return JsonResponse({"error": spoken(error)}, status=UNPROCESSABLE)
    return HttpResponse(cached, content_type="application/json")


@needs(Role.VIEWER)
def explore_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Download a line for each run of the chart, including those that it does not draw."""
    campaign = get_object_or_404(Campaign.objects.select_related("workload"), pk=pk)
    try:
        explored = explorer.explore(campaign, explorer.read(campaign, request.GET))
    except PlanError as error:
        return HttpResponse(spoken(error), status=UNPROCESSABLE, content_type="text/plain")
    lines = exports.csv_lines(run_lines.head(explored), run_lines.rows(explored))
    response = StreamingHttpResponse(lines, content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="explore-{pk}.csv"'
    return response


urlpatterns = [
    path("campaigns/<uuid:pk>/explore/", explore, name="campaign_explore"),
    path("campaigns/<uuid:pk>/explore/chart.json", explore_figure, name="campaign_explore_figure"),
    path("campaigns/<uuid:pk>/explore/runs.csv", explore_csv, name="campaign_explore_csv"),
]
