"""Home, decisions, and the team's timeline."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.http import require_POST

from agents.protocol import digest
from apps.accounts.models import Role, User
from apps.accounts.pages import attempt, blame, needs, page, sentence
from apps.accounts.services import user_of
from apps.campaigns.models import Campaign
from apps.decisions import home as shown
from apps.decisions import services
from apps.decisions.forms import CommentForm, DecisionForm
from apps.decisions.models import Decision, Review
from apps.errors import PlanError
from apps.hosts.models import Host
from apps.results.keeper import Keeper


@needs(Role.VIEWER)
def home(request: HttpRequest) -> HttpResponse:
    """For htmx only the part about what is running."""
    context = {"running": shown.running()}
    if request.headers.get("HX-Request"):
        return page(request, "decisions/_running.html", context)
    return page(
        request,
        "decisions/home.html",
        {
            **context,
            "wanted": shown.wanted(),
            "problems": shown.problems(),
            "decisions": shown.decisions()[: shown.RECENT],
            "campaigns": shown.recent_campaigns(),
            "has_hosts": Host.objects.exists(),
        },
    )


@needs(Role.TUNER)
def decision_new(request: HttpRequest) -> HttpResponse:
    """On the campaign in the URL, whose results are frozen as they are when the decision is saved."""
    measured = Campaign.objects.exclude(kind=Campaign.Kind.PREPARATION).select_related("host")
    campaign = get_object_or_404(measured, pk=_uuid(request.GET.get("campaign", "")))
    form = DecisionForm(request.POST or None, initial={"question": campaign.question, "hosts": [campaign.host]})
    if request.method == "POST" and form.is_valid():
        try:
            decision = services.write_decision(by=user_of(request), campaign=campaign, **form.cleaned_data)
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, "The decision is proposed, with its evidence frozen.")
            return redirect("decision_detail", decision.pk)
    table = Keeper(campaign).table() if campaign.started_at else None
    return page(request, "decisions/form.html", {"campaign": campaign, "table": table}, form)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Http404("a decision is written on a campaign: ?campaign=UUID") from error


def _detail(request: HttpRequest, pk: int, comment: CommentForm) -> HttpResponse:
    rows = Decision.objects.select_related("author", "campaign", "supersedes").prefetch_related(
        "hosts", "comments__author"
    )
    decision = get_object_or_404(rows, pk=pk)
    context = {
        "decision": decision,
        "table": decision.evidence.get("table", {}),
        "intact": digest(decision.evidence) == decision.evidence_digest,
        "reviews": decision.reviews.exclude(verdict=Review.Verdict.OPEN).select_related("campaign").reverse(),
        "successor": getattr(decision, "superseded_by", None),
    }
    return page(request, "decisions/detail.html", context, comment)


@needs(Role.VIEWER)
def decision_detail(request: HttpRequest, pk: int) -> HttpResponse:
    return _detail(request, pk, CommentForm())


@require_POST
@needs(Role.OPERATOR)
def decision_action(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    decision, by = get_object_or_404(Decision, pk=pk), user_of(request)
    if action == "comment":
        return _comment(request, decision, by)
    acts = {"accept": services.accept_decision, "reject": services.reject_decision}
    if action not in acts:
        raise Http404(action)
    attempt(request, lambda: acts[action](decision, by=by), f"The decision is {action}ed.")
    return redirect("decision_detail", pk)


def _comment(request: HttpRequest, decision: Decision, by: User) -> HttpResponse:
    form = CommentForm(request.POST)
    if form.is_valid():
        try:
            services.comment(decision, form.cleaned_data["text"], by=by)
            return redirect("decision_detail", decision.pk)
        except PlanError as error:
            blame(form, error)
    return _detail(request, decision.pk, form)


@needs(Role.VIEWER)
def timeline(request: HttpRequest) -> HttpResponse:
    host, text, person, until = (request.GET.get(name, "").strip() for name in ("host", "q", "by", "until"))
    try:
        found = shown.timeline(int(host) if host.isdigit() else None, text, person, until)
    except PlanError as error:
        raise Http404(sentence(error.subject, error)) from error
    context = {
        "entries": found.entries,
        "older": found.older,
        "until": until,
        "hosts": Host.objects.all(),
        "people": User.objects.order_by("username"),
        "host": host,
        "q": text,
        "by": person,
        "filtered": bool(host or text or person),
    }
    return page(request, "decisions/list.html", context)


urlpatterns = [
    path("", home, name="home"),
    path("timeline/", timeline, name="timeline"),
    path("decisions/new/", decision_new, name="decision_new"),
    path("decisions/<int:pk>/", decision_detail, name="decision_detail"),
    path("decisions/<int:pk>/<slug:action>/", decision_action, name="decision_action"),
]
