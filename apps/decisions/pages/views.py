"""Home, decisions, and the team's timeline."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from agents.wire.protocol import digest
from apps.accounts.models import Role, User
from apps.accounts.services import user_of
from apps.campaigns.models import Campaign
from apps.decisions import services
from apps.decisions.configuration_drift import report
from apps.decisions.evidence import replay
from apps.decisions.models import Decision, Review
from apps.decisions.pages import home as shown
from apps.decisions.pages.forms import CommentForm, DecisionForm
from apps.decisions.search import decided_settings, full_text
from apps.decisions.timeline import entries, feed
from apps.decisions.timeline.forms import TimelineForm
from apps.decisions.validity import confirmation, newer_results
from apps.hosts.models import Host
from apps.results.runs import fidelity
from apps.results.store.campaign_cache import CampaignCache
from apps.tuning import rules
from apps.tuning.exports import FORMATS
from apps.tuning.models import Profile
from apps.web.pages import attachment, attempt, blame, needs, page, row_in_url, spoken
from common.errors import PlanError


@needs(Role.VIEWER)
def home(request: HttpRequest) -> HttpResponse:
    """Show the home page; for htmx only the part about active runs."""
    context = {"running": shown.running()}
    if request.headers.get("HX-Request"):
        return page(request, "decisions/_running.html", context)
    return page(
        request,
        "decisions/home.html",
        {
            **context,
            "open_tasks": shown.open_tasks(),
            "problems": shown.problems(),
            "decisions": entries.decisions_with_names()[: shown.RECENT],
            "campaigns": shown.recent_campaigns(),
            "has_hosts": Host.objects.exists(),
        },
    )


@needs(Role.TUNER, somewhere=True)
def decision_new(request: HttpRequest) -> HttpResponse:
    """Write a decision on the campaign in the URL. Its results are frozen when the decision is saved."""
    measured = Campaign.objects.exclude(kind=Campaign.Kind.PREPARATION).select_related("host")
    campaign = row_in_url(request, measured, "campaign")
    initial = {"question": campaign.question, "hosts": [campaign.host, *campaign.further_hosts.all()]}
    form = DecisionForm(request.POST or None, initial=initial, levels=shown.levels(campaign))
    form.offer_teams(user_of(request))
    if request.method == "POST" and form.is_valid():
        try:
            decision = services.write_decision(by=user_of(request), campaign=campaign, **form.cleaned_data)
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, "The decision is proposed. Its evidence is frozen.")
            return redirect("decision_detail", decision.pk)
    table = CampaignCache(campaign).table() if campaign.started_at else None
    compared = [(level.verdict, level.preliminary) for level in table.levels] if table else []
    caution = newer_results.caution(compared, table.unplanned_analysis if table else "")
    twin = fidelity.lowest(campaign)
    context = {"campaign": campaign, "table": table, "caution": caution, "twin": twin}
    return page(request, "decisions/form.html", context, form)


def _detail(request: HttpRequest, pk: int, comment: CommentForm) -> HttpResponse:
    named = ("author", "accepted_by", "campaign", "supersedes", "team")
    rows = Decision.objects.select_related(*named).prefetch_related("hosts", "comments__author")
    decision = get_object_or_404(rows, pk=pk)
    stale = confirmation.stale_standings(decision)
    frozen = decision.evidence.get("table", {})
    compared = [(level["verdict"], level.get("preliminary", False)) for level in frozen.get("levels", [])]
    context = {
        "caution": newer_results.caution(compared, frozen.get("unplanned_analysis", "")),
        "decision": decision,
        "stale": stale,
        "offer": confirmation.offer(decision, stale),
        "confirming": confirmation.under_way(decision),
        "table": decision.evidence.get("table", {}),
        "intact": digest(decision.evidence) == decision.evidence_digest,
        "scope": decision.scope,
        "formats": FORMATS.values(),
        "settings": rules.flatten(decision.settings),
        "events": decision.events.select_related("by", "host", "campaign"),
        "replayed": replay.replay(decision.evidence),
        "altered": replay.altered(decision.evidence),
        "tomorrow": timezone.localdate() + timedelta(days=1),
        "reviews": decision.reviews.exclude(verdict=Review.Verdict.OPEN).select_related("campaign").reverse(),
        "successor": getattr(decision, "superseded_by", None),
    }
    return page(request, "decisions/detail.html", context, comment)


@needs(Role.VIEWER)
def decision_detail(request: HttpRequest, pk: int) -> HttpResponse:
    return _detail(request, pk, CommentForm())


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def decision_action(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    decision, by = get_object_or_404(Decision, pk=pk), user_of(request)
    if action == "comment":
        return _comment(request, decision, by)
    acts: dict[str, tuple[Callable[[], Any], str]] = {
        "accept": (lambda: services.accept_decision(decision, by=by), "The decision is accepted."),
        "reject": (lambda: services.reject_decision(decision, by=by), "The decision is rejected."),
        "withdraw": (lambda: services.withdraw_decision(decision, by=by), "The decision is withdrawn."),
        "confirm": (
            lambda: confirmation.confirm_decision(decision, by=by),
            "The campaign is planned. Review it, then start it.",
        ),
        "renew": (lambda: services.renew_decision(decision, _day(request), by=by), "The decision is renewed."),
    }
    if action not in acts:
        raise Http404(action)
    done = attempt(request, *acts[action])
    planned = confirmation.under_way(decision) if done and action == "confirm" else None
    return redirect("campaign_detail", planned.pk) if planned else redirect("decision_detail", pk)


def _day(request: HttpRequest) -> date | None:
    """Parse a date field; None if it is empty."""
    typed = request.POST.get("review_on", "").strip()
    try:
        return date.fromisoformat(typed) if typed else None
    except ValueError as error:
        raise PlanError(
            "review_on", f"{typed!r:.40} is not a date", hint="accepted: a date such as 2027-01-31"
        ) from error


def _comment(request: HttpRequest, decision: Decision, by: User) -> HttpResponse:
    form = CommentForm(request.POST)
    if form.is_valid():
        try:
            services.comment(decision, **form.cleaned_data, by=by)
            return redirect("decision_detail", decision.pk)
        except PlanError as error:
            blame(form, error)
    return _detail(request, decision.pk, form)


@needs(Role.VIEWER)
def timeline(request: HttpRequest) -> HttpResponse:
    form = TimelineForm(request.GET)
    try:
        timeline_page = entries.timeline(form.criteria(), request.GET.get("cursor", ""))
    except PlanError as error:
        raise Http404(spoken(error)) from error
    context = {
        "entries": timeline_page.entries,
        "older": timeline_page.older,
        "cursor": request.GET.get("cursor", ""),
        "filtered": bool(form.criteria()),
    }
    return page(request, "decisions/list.html", context | {"form": form})


@require_POST
@needs(Role.VIEWER)
def feed_action(request: HttpRequest, action: str) -> HttpResponse:
    by = user_of(request)
    if action == "renew":
        address = request.build_absolute_uri(feed.renew_feed(by=by))
        return page(request, "decisions/feed.html", {"address": address})
    if action != "drop":
        raise Http404(action)
    attempt(request, lambda: feed.drop_feed(by=by), "The address of your feed no longer works.")
    return redirect("timeline")


@needs(Role.VIEWER)
def search(request: HttpRequest) -> HttpResponse:
    text, kind = (request.GET.get(name, "").strip() for name in ("q", "kind"))
    try:
        hits = full_text.search(text, kind) if text else []
    except PlanError as error:
        raise Http404(spoken(error)) from error
    context = {"q": text, "kind": kind, "hits": hits, "kinds": full_text.kinds(), "most": full_text.MOST}
    return page(request, "decisions/search.html", context)


@needs(Role.VIEWER)
def on_host(request: HttpRequest, name: str) -> HttpResponse:
    """Show the decisions about a host, on its page; those that may no longer hold first."""
    host = get_object_or_404(Host, name=name)
    decisions = Decision.objects.alive().about(host).defer("evidence").select_related("author")
    stale = confirmation.stale_on(host)
    return page(request, "decisions/_on_host.html", {"host": host, "decisions": decisions, "stale": stale})


@needs(Role.VIEWER)
def decision_export(request: HttpRequest, pk: int, kind: str) -> HttpResponse:
    """Download the decided values as a file to install by hand on ?host=."""
    decision = get_object_or_404(Decision, pk=pk)
    host = get_object_or_404(Host, name=request.GET.get("host", ""))
    try:
        return attachment(*services.export(decision, host, kind))
    except PlanError as error:
        raise Http404(spoken(error)) from error


@needs(Role.VIEWER)
def drift_report(request: HttpRequest) -> HttpResponse:
    """Show the drift of all decisions that are followed, of one (?decision=), or on one host (?host=)."""
    key, name = request.GET.get("decision", ""), request.GET.get("host", "")
    host = get_object_or_404(Host, name=name) if name else None
    reports = report.decision_drifts(host)
    if key:
        reports = [each for each in reports if str(each.decision.pk) == key]
    context = {"reports": reports, "host": host, "hosts": Host.objects.all(), "decision": key}
    return page(request, "decisions/drift.html", context)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def drift_ask(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    decision, host = get_object_or_404(Decision, pk=pk), get_object_or_404(Host, name=name)
    attempt(request, lambda: report.ask(decision, host, by=user_of(request)), f"{host} was queried.")
    return redirect(f"{reverse('drift')}?decision={pk}")


@needs(Role.VIEWER)
def why(request: HttpRequest) -> HttpResponse:
    """Show the decisions behind ?setting=, ?host= and ?profile=, in any combination."""
    setting, name, profile = (request.GET.get(each, "").strip() for each in ("setting", "host", "profile"))
    host = get_object_or_404(Host, name=name) if name else None
    of = get_object_or_404(Profile, name=profile) if profile else None
    context = {"decisions": decided_settings.behind(setting, host, of), "setting": setting, "host": host, "profile": of}
    return page(request, "decisions/why.html", context | {"hosts": Host.objects.all()})


urlpatterns = [
    path("", home, name="home"),
    path("timeline/", timeline, name="timeline"),
    path("decisions/on/<str:name>/", on_host, name="decisions_on_host"),
    path("timeline/feed/<slug:action>/", feed_action, name="feed_action"),
    path("search/", search, name="search"),
    *feed.urlpatterns,
    path("drift/", drift_report, name="drift"),
    path("drift/<int:pk>/<str:name>/ask/", drift_ask, name="drift_ask"),
    path("why/", why, name="why"),
    path("decisions/new/", decision_new, name="decision_new"),
    path("decisions/<int:pk>/", decision_detail, name="decision_detail"),
    path("decisions/<int:pk>/export/<slug:kind>/", decision_export, name="decision_export"),
    path("decisions/<int:pk>/<slug:action>/", decision_action, name="decision_action"),
]
