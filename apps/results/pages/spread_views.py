"""fio's latency distributions: section by section in a run, level by level in a campaign."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.cache import cache_control

from apps.accounts.models import Role
from apps.campaigns.models import Campaign, Run
from apps.request_values import whole
from apps.results import charts
from apps.results.exchange import exports
from apps.results.runs import spreads
from apps.results.runs.spreads import Spreads
from apps.results.store.campaign_cache import CampaignCache
from apps.web.pages import needs


@needs(Role.VIEWER)
def run_spread_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Download the distribution of the step in ?step=."""
    return _csv(_of_run(request, pk), "section", f"latency-{pk}.csv")


def _of_run(request: HttpRequest, pk: UUID) -> Spreads:
    run, step = get_object_or_404(Run, pk=pk), request.GET.get("step", "")
    distributions = spreads.of_run(run, step)
    if not distributions.entries:
        raise Http404(f"{step[:40]!r} is not a step of this run with fio results")
    return distributions


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def campaign_spread(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the figure for the section in ?section=, from the cache."""
    campaign, section, host = _parse_request(request, pk)
    theme = charts.theme(request.GET.get("theme", ""))
    cached = CampaignCache(campaign, host).cached_query(
        f"distribution {section} {theme is charts.DARK}",
        lambda: charts.spread_chart(spreads.of_levels(campaign, *section, host), theme),
    )
    return HttpResponse(cached, content_type="application/json")


@needs(Role.VIEWER)
def campaign_spread_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    campaign, section, host = _parse_request(request, pk)
    return _csv(spreads.of_levels(campaign, *section, host), "level", f"latency-{pk}.csv")


def _parse_request(request: HttpRequest, pk: UUID) -> tuple[Campaign, tuple[str, str], int | None]:
    campaign = get_object_or_404(Campaign.objects.select_related("workload"), pk=pk)
    section, host = (request.GET.get(name, "") for name in ("section", "host"))
    sections = spreads.sections_of(campaign)
    if section not in sections:
        raise Http404(
            f"{section[:80]!r} is not a section of the fio results; accepted: {', '.join(sections) or 'none'}"
        )
    return campaign, sections[section], whole(host)


def context(request: HttpRequest, campaign: Campaign, host: int | None) -> dict[str, Any]:
    """Return the content of a campaign's page: the section of its fio steps in ?section=, or the first one."""
    sections = spreads.sections_of(campaign)
    if not sections:
        return {}
    section = request.GET.get("section", "")
    chosen = section if section in sections else next(iter(sections))
    named = {key: spreads.section_name(each) for key, each in sections.items()}
    address = {"section": chosen} | ({"host": host} if host else {})
    return {"spread": urlencode(address), "spread_of": named[chosen], "sections": named.items(), "section": chosen}


def _csv(distributions: Spreads, row: str, name: str) -> HttpResponseBase:
    lines = exports.csv_lines([row, "direction", *spreads.HEAD], spreads.lines_of(distributions))
    response = StreamingHttpResponse(lines, content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


urlpatterns = [
    path("runs/<uuid:pk>/fio.csv", run_spread_csv, name="run_spread_csv"),
    path("campaigns/<uuid:pk>/fio.json", campaign_spread, name="campaign_spread"),
    path("campaigns/<uuid:pk>/fio.csv", campaign_spread_csv, name="campaign_spread_csv"),
]
