"""SELECT only: schedules as lists and pages show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, QuerySet, Subquery

from apps.campaigns.models import Schedule, Slot
from apps.campaigns.schedules import times

NEXT = 3


def listed() -> QuerySet[Schedule]:
    """Those that were not deleted, each with the outcome and time of its newest slot."""
    newest = Slot.objects.filter(schedule=OuterRef("pk")).order_by("-at")
    schedules = Schedule.objects.exclude(state=Schedule.State.DELETED).select_related("campaign__host", "owner")
    return schedules.annotate(
        last_at=Subquery(newest.values("at")[:1]), last_outcome=Subquery(newest.values("outcome")[:1])
    )


def next_times(schedule: Schedule, now: datetime, count: int = NEXT) -> list[datetime]:
    """When it is due next, in its time zone; nothing unless it is active. No query."""
    if schedule.next_at is None:
        return []
    calendar = times.read(schedule.when, schedule.time_zone)
    first = schedule.next_at.astimezone(calendar.zone)
    return [first, *calendar.next(max(schedule.next_at, now), count - 1)]


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule in a list."""

    schedule: Schedule
    next_at: datetime | None
    last_at: datetime | None
    last_outcome: str


def rows(schedules: Iterable[Schedule], now: datetime) -> list[ScheduleRow]:
    """With their times in their own time zones. No query for rows of `listed`."""
    listed_rows = []
    for each in schedules:
        zone = times.read(each.when, each.time_zone).zone
        last = getattr(each, "last_at", None)
        first = next(iter(next_times(each, now, 1)), None)
        listed_rows.append(
            ScheduleRow(each, first, last.astimezone(zone) if last else None, getattr(each, "last_outcome", "") or "")
        )
    return listed_rows
