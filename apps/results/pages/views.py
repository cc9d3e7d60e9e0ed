"""Pages that show the results of a campaign, and its downloads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.utils import timezone
from django.utils.http import quote_etag
from django.views.decorators.cache import cache_control
from django.views.decorators.http import condition

import stats
from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.campaigns.design import descriptions, stopping
from apps.campaigns.execution import by_hand
from apps.campaigns.execution.schedule import OnHost, by_host
from apps.campaigns.history import history
from apps.campaigns.models import Campaign
from apps.campaigns.pages import lifecycle_views
from apps.hosts.models import Host
from apps.request_values import whole
from apps.results import charts
from apps.results.answers.answer_card import AnswerCard, answer_card
from apps.results.answers.history.baselines import baselines
from apps.results.answers.sentences import by_topic
from apps.results.answers.summary import HEAD
from apps.results.answers.table import CampaignTable
from apps.results.exchange import downloads, exports
from apps.results.exchange.transfer import download
from apps.results.explore.by_design import DIFFERENCES, DesignChart, charts_of
from apps.results.pages import spread_views
from apps.results.pages.design_pairs import design_pairs
from apps.results.pages.figures import as_json, width_of
from apps.results.runs import page_content
from apps.results.runs.fidelity import badge
from apps.results.store.campaign_cache import CampaignCache
from apps.web.pages import needs, page

PLACE_DIGITS = 9
NAMED = ("host", "workload", "dataset", "profile__profile", "created_by", "cloned_from")
TABS = ("chart", "settings", "commands", "log", "artefacts", "provenance")
HOSTS = "hosts"  # another tab, for runs over several hosts


@needs(Role.VIEWER)
def campaign_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the whole page; for htmx only the parts that change while the campaign runs."""
    campaign = get_object_or_404(Campaign.objects.select_related(*NAMED), pk=pk)
    host = _host(request)
    planned, compares = campaign.state != Campaign.State.DRAFT, campaign.kind != Campaign.Kind.PREPARATION
    whole = CampaignCache(campaign)
    progress = whole.progress()
    cache = CampaignCache(campaign, host) if host else whole
    shown = page_content.runs_of(campaign, host, **_place(request))
    table = cache.table() if planned and compares else None
    active = campaign.runs.active().first() if campaign.ended_at is None else None
    context: dict[str, Any] = {
        "campaign": campaign,
        "progress": progress,
        "breaks": whole.breaks(),
        "table": table,
        **(_drawn(cache) if table else {}),
        "hosts": _hosts(whole) if planned else [],
        "host": host,
        "of_host": f"?host={host}" if host else "",
        "asked": f"host={host}&" if host else "",
        "chosen": f"host={host}" if host else "",
        "runs": shown.runs,
        "shown": shown,
        "active": active,
        "changes_by_hand": by_hand.changes(active) if active else [],
        "history": history(campaign),
        **_rule(campaign),
        **lifecycle_views.context(campaign),
        **(spread_views.context(request, campaign, host) if table else {}),
        "decisions": getattr(campaign, "decisions").all(),  # noqa: B009 - the room to the right names it
        "as_table": request.GET.get("view") == "table",
        "sentences": descriptions.sentences(campaign),
        "threats": descriptions.threats(campaign),
        "exports": [(name, one.about) for name, one in downloads.CAMPAIGN.items() if one.offered(campaign)],
        "moving": (planned and campaign.ended_at is None) or progress.read < progress.done,
    }
    context["design"] = design_pairs(campaign, context.get("rule"), context["hosts"], user_of(request))
    if table:
        card = _card(whole, table, context["retriable"])
        label, name = (card.level.label, card.level.name) if card.level else (table.baseline, table.baseline)
        context |= {"card": card, "of_level": name, "key_figures": cache.key_figures(label)}
        context |= _design_charts(request, campaign, table, host)
    template = "results/campaign/_campaign.html" if request.headers.get("HX-Request") else "results/campaign/page.html"
    return page(request, template, context | ({} if planned else page_content.design_of(campaign)))


def _card(whole: CampaignCache, table: CampaignTable, retriable: int) -> AnswerCard:
    campaign = whole.campaign
    ended, twin = campaign.ended_at is not None, badge(campaign)
    card = answer_card(
        table,
        ended=ended,
        retriable=retriable,
        run_s=whole.run_s() if ended else None,
        planned=0 if campaign.kind == Campaign.Kind.IMPORTED else campaign.repetitions,
    )
    return replace(card, badges=[*card.badges, twin]) if twin else card


def _design_charts(request: HttpRequest, campaign: Campaign, table: CampaignTable, host: int | None) -> dict[str, Any]:
    """Return the charts that fit the design, and the one in ?chart=.

    The explorer combines all hosts, so a page of one host only has the charts that the campaign draws."""
    offered = [chart for chart in charts_of(campaign.factors) if not (host and chart.view)]
    if not any(level.verdict for level in table.levels):
        offered = [chart for chart in offered if chart.key != DIFFERENCES]
    key = request.GET.get("chart", "")
    shown = next((chart for chart in offered if chart.key == key), offered[0])
    of_host = {"host": host} if host else {}
    state = urlencode({**of_host, "chart": shown.key})
    return {"design_charts": offered, "shown_chart": shown, "state": state, **_drawn_by(campaign, shown, of_host)}


def _drawn_by(campaign: Campaign, shown: DesignChart, of_host: dict[str, int]) -> dict[str, Any]:
    """Return the URL that draws a chart, that of its CSV, and the URL to save it."""
    if shown.view:
        query = urlencode(shown.view)
        return {
            "chart_figure": f"{reverse('campaign_explore_figure', args=[campaign.pk])}?{query}",
            "chart_csv": f"{reverse('campaign_explore_csv', args=[campaign.pk])}?{query}",
            "pinned": {"chart": "explorer", "here": reverse("campaign_explore", args=[campaign.pk]), "chosen": query},
        }
    query = urlencode({**of_host, **({"chart": DIFFERENCES} if shown.key == DIFFERENCES else {})})
    return {
        "chart_figure": reverse("campaign_figure", args=[campaign.pk]) + (f"?{query}" if query else ""),
        "chart_csv": reverse("campaign_csv", args=[campaign.pk]),
        "pinned": {"chart": shown.key, "here": "", "chosen": urlencode(of_host)},
    }


def _rule(campaign: Campaign) -> dict[str, Any]:
    rule = stopping.read(campaign.stop, campaign.factors, campaign.repetitions)
    if rule is None:
        return {}
    analyses = list(campaign.interim_analyses.all())
    last = analyses[-1] if analyses else None
    spending = stats.SPENDING[rule.spending]
    return {"rule": rule, "interim_analyses": analyses, "newest_analysis": last, "spending": spending}


def _host(request: HttpRequest) -> int | None:
    """Return ?host=; None if it is not a number."""
    return whole(request.GET.get("host", ""))


def _place(request: HttpRequest) -> dict[str, int]:
    """Return the position from ?after= or ?before= at which the list of runs continues."""
    place = {}
    for name in ("before", "after"):
        position = request.GET.get(name, "")
        if position and whole(position, PLACE_DIGITS) is None:
            raise Http404(f"{name}={position[:40]} is not a position in the run order; accepted: a number from 0")
        if position:
            place[name] = whole(position) or 0
    return place


def _drawn(cache: CampaignCache) -> dict[str, Any]:
    return {
        "levels": cache.levels_drawn(),
        "judgements": cache.judgements_drawn(),
        "summary": cache.summary_drawn(),
        "changes": cache.changes_drawn(),
    }


def _hosts(cache: CampaignCache) -> list[OnHost]:
    """Return the hosts of the campaign; an imported one has none."""
    if cache.campaign.kind == Campaign.Kind.IMPORTED:
        return []
    return by_host(cache.campaign, timezone.now(), cache.hosts())


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def campaign_figure(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the runs of each level, or with ?chart=differences each level against the baseline.

    From the cache; a browser that has the same version gets 304."""
    cache = CampaignCache(get_object_or_404(Campaign.objects.select_related("workload"), pk=pk), _host(request))
    differences, narrow = request.GET.get("chart", "") == DIFFERENCES, width_of(request) < charts.NARROW_PX
    theme = request.GET.get("theme", "")

    def tag(request: HttpRequest) -> str:
        return quote_etag(f"{cache.key[:32]}-{cache.host}-{theme == 'dark'}-{differences}-{narrow}")

    def draw(request: HttpRequest) -> HttpResponse:
        return HttpResponse(cache.figure(theme, differences, narrow), content_type="application/json")

    return condition(etag_func=tag)(draw)(request)


@needs(Role.VIEWER)
def campaign_summary(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Download the main figures of every step: a line for each level and figure."""
    table = CampaignCache(get_object_or_404(Campaign, pk=pk), _host(request)).summary()
    response = StreamingHttpResponse(exports.csv_lines(HEAD, table.rows()), content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="summary-{pk}.csv"'
    return response


@needs(Role.VIEWER)
def campaign_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Download every run of the campaign, including failed ones, with all its measurements as columns."""
    return campaign_export(request, pk, "runs.csv")


@needs(Role.VIEWER)
def campaign_export(request: HttpRequest, pk: UUID, name: str) -> HttpResponseBase:
    if name not in downloads.CAMPAIGN:
        raise Http404(f"{name} is not one of {', '.join(downloads.CAMPAIGN)}")
    return download(downloads.CAMPAIGN[name], get_object_or_404(exports.campaigns(), pk=pk), name)


@needs(Role.VIEWER)
def host_baselines(request: HttpRequest, name: str) -> HttpResponse:
    """Show the part of a host's page on repeated runs."""
    repeated = baselines(get_object_or_404(Host, name=name))
    with_findings = [(baseline, by_topic(baseline.judgements())) for baseline in repeated]
    return page(request, "results/campaign/_baselines.html", {"name": name, "baselines": with_findings})


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def baseline_figure(request: HttpRequest, name: str, digest: str) -> HttpResponse:
    """Return all runs of one spec on this host in order of time, with the changes of their level."""
    repeated = baselines(get_object_or_404(Host, name=name), digest)
    if not repeated:
        raise Http404(f"{digest[:12]} has too few runs on {name}")
    return as_json(charts.baseline_chart(repeated[0], charts.theme(request.GET.get("theme", ""))))


urlpatterns = [
    path("campaigns/<uuid:pk>/", campaign_detail, name="campaign_detail"),
    path("campaigns/<uuid:pk>/chart.json", campaign_figure, name="campaign_figure"),
    path("campaigns/<uuid:pk>/summary.csv", campaign_summary, name="campaign_summary"),
    path("campaigns/<uuid:pk>/runs.csv", campaign_csv, name="campaign_csv"),
    path("campaigns/<uuid:pk>/export/<str:name>", campaign_export, name="campaign_export"),
    path("baselines/<str:name>/", host_baselines, name="host_baselines"),
    path("baselines/<str:name>/<slug:digest>/chart.json", baseline_figure, name="baseline_figure"),
]
