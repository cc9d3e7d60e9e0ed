"""The buttons of a started campaign, and the page that extends it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.http import require_POST

from apps.accounts.models import Role, User
from apps.accounts.services import require, user_of
from apps.campaigns import archiving, lifecycle
from apps.campaigns.design.before_start import validity
from apps.campaigns.models import Campaign
from apps.campaigns.pages import factor_rows
from apps.web.pages import attempt, blame, needs, page, sentence
from common.errors import PlanError, RoleError


def pause(request: HttpRequest, campaign: Campaign, by: User) -> None:
    stop = "stop" in request.POST
    done = (
        "Paused. The active run is being stopped and will be queued again."
        if stop
        else "Paused. The active run continues to its end."
    )
    attempt(request, lambda: lifecycle.pause_campaign(campaign, by=by, stop=stop), done)


def resume(request: HttpRequest, campaign: Campaign, by: User) -> None:
    attempt(request, lambda: lifecycle.resume_campaign(campaign, by=by), "Resumed.")


def retry(request: HttpRequest, campaign: Campaign, by: User) -> None:
    attempt(request, lambda: lifecycle.retry_failed(campaign, by=by), "Failed runs are queued again.")


def archive(request: HttpRequest, campaign: Campaign, by: User) -> None:
    attempt(request, lambda: archiving.archive_campaign(campaign, by=by), "Archived. The list shows it under archived.")


def unarchive(request: HttpRequest, campaign: Campaign, by: User) -> None:
    attempt(request, lambda: archiving.unarchive_campaign(campaign, by=by), "Unarchived. The list shows it again.")


ACTIONS = {"pause": pause, "resume": resume, "retry": retry, "archive": archive, "unarchive": unarchive}


class RenameForm(forms.Form):
    name = forms.CharField(max_length=archiving.LONGEST_NAME)
    question = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}))


@needs(Role.OPERATOR, somewhere=True)
def campaign_rename(request: HttpRequest, pk: UUID) -> HttpResponse:
    campaign, by = get_object_or_404(Campaign.objects.select_related("host"), pk=pk), user_of(request)
    require(by, Role.OPERATOR, "rename campaign", on=campaign)
    form = RenameForm(request.POST or None, initial={"name": campaign.name, "question": campaign.question})
    if request.method == "POST" and form.is_valid():
        archiving.rename_campaign(campaign, by=by, **form.cleaned_data)
        messages.success(request, "Saved.")
        return redirect("campaign_detail", pk)
    return page(request, "campaigns/rename.html", {"campaign": campaign}, form)


class ExtendForm(forms.Form):
    repetitions = forms.IntegerField(
        min_value=1, max_value=1000, required=False, label="Additional repetitions", help_text="of every combination"
    )
    budget_h = forms.FloatField(
        min_value=0.01, required=False, label="Budget (hours)", help_text="replaces the old budget"
    )


@needs(Role.OPERATOR, somewhere=True)
def campaign_extend(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Add repetitions or levels. Factors offer a row for each new level, with the path that their levels set."""
    campaign = get_object_or_404(Campaign.objects.select_related("workload", "dataset", "host"), pk=pk)
    require(user_of(request), Role.OPERATOR, "extend campaign", on=campaign)
    form = ExtendForm(request.POST or None, initial={"repetitions": request.GET.get("repetitions", "")[:4]})
    names = ("factor", "level", "path", "value")
    rows = factor_rows.rows_typed({name: request.POST.getlist(name) for name in names}) or _blank_rows(campaign)
    if request.method == "POST" and form.is_valid() and _extend(campaign, form, rows, user_of(request)):
        return redirect("campaign_detail", pk)
    has_results, grows = campaign.runs.filter(outcome="ok").exists(), campaign.design in lifecycle.GROWS
    context = {"campaign": campaign, "rows": rows, "has_results": has_results, "grows": grows}
    return page(request, "campaigns/extend.html", context, form)


def _blank_rows(campaign: Campaign) -> list[factor_rows.FactorRow]:
    paths = [(factor["name"], path) for factor in campaign.factors for path in factor["levels"][-1]["set"]]
    return [factor_rows.FactorRow(factor=name, path=path) for name, path in paths]


def _extend(campaign: Campaign, form: ExtendForm, rows: list[factor_rows.FactorRow], by: User) -> bool:
    kind = campaign.dataset.kind if campaign.dataset else ""
    try:
        typed = factor_rows.factors_of([row for row in rows if row.level or row.value], campaign.steps, kind)
        levels = {factor["name"]: factor["levels"] for factor in typed}
        fields = {name: value for name, value in form.cleaned_data.items() if value}
        lifecycle.extend_campaign(campaign, by=by, levels=levels, **fields)
    except RoleError:
        raise
    except PlanError as error:
        _blame(form, rows, error)
        return False
    return True


def _blame(form: ExtendForm, rows: list[factor_rows.FactorRow], error: PlanError) -> None:
    named = [row for row in rows if row.path == error.subject or (row.value and repr(row.value) in error.message)]
    if named:
        named[0].error = sentence("", error)
        form.add_error(None, "An added level is not possible.")
    else:
        blame(form, error)


def context(campaign: Campaign) -> dict[str, Any]:
    """Return what the buttons on a campaign's page show."""
    comparison = campaign.kind == Campaign.Kind.COMPARISON
    return {"clonable": comparison, "retriable": lifecycle.failed_runs(campaign).count() if comparison else 0}


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def campaign_checks(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the checks after the hosts were contacted; for htmx only the table."""
    campaign = get_object_or_404(Campaign, pk=pk)
    template = "campaigns/_checks.html" if request.headers.get("HX-Request") else "campaigns/checks.html"
    return page(request, template, {"campaign": campaign, "checks": validity.ask(campaign, by=user_of(request))})


urlpatterns = [
    path("campaigns/<uuid:pk>/checks/", campaign_checks, name="campaign_checks"),
    path("campaigns/<uuid:pk>/extend/", campaign_extend, name="campaign_extend"),
    path("campaigns/<uuid:pk>/rename/", campaign_rename, name="campaign_rename"),
]
