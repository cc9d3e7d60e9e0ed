"""The page of a schedule: when it is due next, and what became of each time."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.utils import timezone

from apps.accounts.models import Role
from apps.accounts.web.pages import keyset_page, needs, page
from apps.campaigns.models import Schedule
from apps.campaigns.schedules import queries, times
from apps.hosts import windows

SHOWN = 50


@needs(Role.VIEWER)
def schedule_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    schedule = get_object_or_404(Schedule.objects.select_related("campaign__host", "owner"), pk=pk)
    calendar = times.read(schedule.when, schedule.time_zone)
    slots = keyset_page(request, schedule.slots.select_related("campaign"), ("-at", "-pk"), SHOWN)
    context = {
        "schedule": schedule,
        "campaign": schedule.campaign,
        "cron": calendar.cron,
        "windows": windows.read(schedule.windows, schedule.time_zone).windows,
        "next": queries.next_times(schedule, timezone.now()),
        "slots": [(each, each.at.astimezone(calendar.zone)) for each in slots.rows],
        "pages": slots,
    }
    return page(request, "results/schedule.html", context)


urlpatterns = [path("schedules/<uuid:pk>/", schedule_detail, name="schedule_detail")]
