"""The page of a schedule: its next times, the trend of its campaigns, and the outcome of each time."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.cache import cache_control

from apps.accounts.models import Role
from apps.campaigns import queries as campaigns
from apps.campaigns.models import Schedule
from apps.campaigns.schedules import queries, times
from apps.hosts.usage import windows
from apps.results import charts
from apps.results.answers.history.trend import Trend, trend
from apps.results.exchange import exports
from apps.results.pages.figures import as_json
from apps.web.pages import keyset_page, needs, page

SHOWN = 50
HEAD = ("at", "campaign", "level", "runs", "mean", "low", "high")


@needs(Role.VIEWER)
def schedule_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    schedule = _schedule(pk)
    calendar = times.read(schedule.when, schedule.time_zone)
    slots = keyset_page(request, schedule.slots.select_related("campaign"), ("-at", "-pk"), SHOWN)
    campaigns.with_run_counts(row.campaign for row in slots.rows if row.campaign)
    context = {
        "schedule": schedule,
        "campaign": schedule.campaign,
        "cron": calendar.cron,
        "windows": windows.read(schedule.windows, schedule.time_zone).windows,
        "next": queries.next_times(schedule, timezone.now()),
        "slots": [(row, row.at.astimezone(calendar.zone)) for row in slots.rows],
        "pages": slots,
        "trend": trend(schedule),
        "as_table": request.GET.get("view") == "table",
        "figure": reverse("schedule_figure", args=[pk]),
        "csv": reverse("schedule_csv", args=[pk]),
    }
    return page(request, "results/schedule/page.html", context)


def _schedule(pk: UUID) -> Schedule:
    rows = Schedule.objects.select_related("campaign__host", "campaign__workload", "owner")
    return get_object_or_404(rows, pk=pk)


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def schedule_figure(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The trend of its campaigns."""
    return as_json(charts.trend_chart(trend(_schedule(pk)), charts.theme(request.GET.get("theme", ""))))


@needs(Role.VIEWER)
def schedule_csv(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Download a line for each campaign and level."""
    response = StreamingHttpResponse(exports.csv_lines(HEAD, _rows(trend(_schedule(pk)))), content_type=exports.CSV)
    response["Content-Disposition"] = f'attachment; filename="trend-{pk}.csv"'
    return response


def _rows(trend: Trend) -> Iterator[list[object]]:
    for point in trend.points:
        figures = [point.runs, point.mean, point.low, point.high]
        yield [point.at.isoformat(), str(point.campaign), point.level, *figures]


urlpatterns = [
    path("schedules/<uuid:pk>/", schedule_detail, name="schedule_detail"),
    path("schedules/<uuid:pk>/chart.json", schedule_figure, name="schedule_figure"),
    path("schedules/<uuid:pk>/trend.csv", schedule_csv, name="schedule_csv"),
]
