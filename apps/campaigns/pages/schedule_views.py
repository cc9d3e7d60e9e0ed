"""Pages of schedules: the list, the form, and the buttons. That of one is in apps/results/pages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_POST

from apps.accounts.models import Role
from apps.accounts.services import require, user_of
from apps.campaigns import queries as campaigns
from apps.campaigns.models import Campaign, Schedule
from apps.campaigns.schedules import queries, services
from apps.hosts.pages.forms import WindowsForm
from apps.web.pages import attempt, blame, keyset_page, needs, page, row_in_url, team_in_url
from common.errors import PlanError

SHOWN = 50


class ScheduleForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="campaigns get this name and the date")
    when = forms.CharField(
        max_length=100,
        label="When",
        help_text="daily 02:30; weekly Mon, Thu 02:30; monthly 1 02:30; monthly last 02:30; or cron 30 2 * * 1-5",
        widget=forms.TextInput(attrs={"placeholder": "daily 02:30", "autocomplete": "off", "spellcheck": "false"}),
    )
    time_zone = forms.CharField(max_length=63, label="Time zone", help_text="such as Europe/Athens or UTC")
    late_by_min = forms.IntegerField(
        min_value=services.LEAST_LATE_MIN,
        max_value=services.MOST_LATE_MIN,
        label="Maximum delay (minutes)",
        help_text="a time that the server reaches later is recorded as missed",
    )


@needs(Role.VIEWER)
def schedule_list(request: HttpRequest) -> HttpResponse:
    query, team = request.GET.get("q", "").strip(), team_in_url(request)
    rows = queries.listed()
    rows = rows.filter(name__icontains=query) if query else rows
    rows = rows if team is None else rows.filter(campaign__in=Campaign.objects.filter(campaigns.of_team(team)))
    row_page = keyset_page(request, rows, ("name", "pk"), SHOWN)
    listed = queries.rows(row_page.rows, timezone.now())
    return page(request, "campaigns/schedules/list.html", {"rows": listed, "pages": row_page, "q": query})


@needs(Role.OPERATOR, somewhere=True)
def schedule_add(request: HttpRequest) -> HttpResponse:
    """`?campaign=` names the campaign to repeat."""
    campaign = row_in_url(request, Campaign.objects.select_related("host", "workload"), "campaign")
    require(user_of(request), Role.OPERATOR, "create schedule", on=campaign)
    first = {"name": campaign.name[:100], "time_zone": campaign.host.time_zone, "late_by_min": 30}
    form, windows = ScheduleForm(request.POST or None, initial=first), WindowsForm(request.POST).windows()
    if form.is_bound and form.is_valid():
        try:
            fields = {**form.cleaned_data, "windows": windows}
            schedule = services.create_schedule(campaign, by=user_of(request), **fields)
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, f"{schedule} is active.")
            return redirect("schedule_detail", schedule.pk)
    context = {"campaign": campaign, "windows": WindowsForm.of(windows)}
    return page(request, "campaigns/schedules/form.html", context, form)


@needs(Role.OPERATOR, somewhere=True)
def schedule_change(request: HttpRequest, pk: UUID) -> HttpResponse:
    schedule = get_object_or_404(Schedule.objects.select_related("campaign__host", "owner"), pk=pk)
    require(user_of(request), Role.OPERATOR, "change schedule", on=schedule)
    form = ScheduleForm(request.POST or None, initial={name: getattr(schedule, name) for name in services.CHANGED})
    windows = WindowsForm(request.POST).windows() if form.is_bound else schedule.windows
    if form.is_bound and form.is_valid():
        fields: dict[str, Any] = {**form.cleaned_data, "windows": windows}
        try:
            services.change_schedule(schedule, by=user_of(request), **fields)
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, "Schedule changed.")
            return redirect("schedule_detail", pk)
    context = {"schedule": schedule, "campaign": schedule.campaign, "windows": WindowsForm.of(windows)}
    return page(request, "campaigns/schedules/form.html", context, form)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def schedule_action(request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
    schedule, by = get_object_or_404(Schedule.objects.select_related("campaign__host"), pk=pk), user_of(request)
    actions = {
        "pause": (lambda: services.pause_schedule(schedule, by=by), "Schedule paused."),
        "resume": (lambda: services.resume_schedule(schedule, by=by), "Schedule resumed. You own it now."),
        "delete": (lambda: services.delete_schedule(schedule, by=by), "Schedule deleted. Its campaigns remain."),
    }
    if action not in actions:
        raise Http404(f"{action} is not one of {', '.join(actions)}")
    attempt(request, *actions[action])
    return redirect("schedule_detail", pk)


urlpatterns = [
    path("schedules/", schedule_list, name="schedule_list"),
    path("schedules/add/", schedule_add, name="schedule_add"),
    path("schedules/<uuid:pk>/change/", schedule_change, name="schedule_change"),
    path("schedules/<uuid:pk>/<slug:action>/", schedule_action, name="schedule_action"),
]
