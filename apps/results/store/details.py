"""Drop the details of old runs, month by month: the event log, with commands and evidence of proofs, and the series.

Measurements, findings, marks, the summary of the proof and raw outputs stay, so no verdict changes. Runs of campaigns
on which a decision rests keep their details: `keep` has these campaigns.

Events and samples of a month are partitions, each of which is dropped as a whole. Before that, what outlives the month
moves to the partition of kept rows. In between, the series of its runs are deleted in batches. Interrupted work
continues with the next task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.services import audit
from apps.campaigns.models import Campaign, Run, RunEvent, RunPart
from apps.infrastructure import months
from apps.results.models import Block, Series

WORK_S = 20.0  # of one task
BATCH = 500  # runs
PLACE = "details.place"  # cache key: the last run that a task has processed


@dataclass(frozen=True)
class Month:
    """A month that is old enough, or why it is not dropped yet. `runs`: that lose their details."""

    month: date
    runs: int
    obstacle: str = ""


def old_months(days: int, keep: QuerySet[Campaign]) -> list[Month]:
    """Return the months that ended more than `days` ago, the earliest first."""
    cutoff = timezone.now() - timedelta(days=days)
    return [_month(month, cutoff, keep) for month in months.present() if _begin(months.after(month)) <= cutoff]


def _month(month: date, cutoff: datetime, keep: QuerySet[Campaign]) -> Month:
    runs = _runs_of(month)
    late = runs.filter(Q(ended_at=None) | Q(ended_at__gt=cutoff)).first()
    obstacle = (
        f"{late} {'has not ended' if late.ended_at is None else f'ended on {late.ended_at:%Y-%m-%d}'}" if late else ""
    )
    return Month(month, runs.exclude(campaign__in=keep).count(), obstacle)


def _begin(month: date) -> datetime:
    return datetime(month.year, month.month, 1, tzinfo=UTC)


def _runs_of(month: date) -> QuerySet[Run]:
    return Run.objects.filter(started_at__gte=_begin(month), started_at__lt=_begin(months.after(month))).order_by()


def drop_details(days: int, keep: QuerySet[Campaign], *, until_s: float | None = None) -> list[Month]:
    """Drop the details of all runs that ended more than `days` ago, for at most `until_s`. Returns the months that were
    dropped; each has a row in the audit log."""
    ends = None if until_s is None else time.monotonic() + until_s
    dropped: list[Month] = []
    for each in old_months(days, keep):
        if each.obstacle:
            continue
        if not _drop_month(each, keep, ends):
            return dropped
        dropped.append(each)
    _delete_kept(timezone.now() - timedelta(days=days), keep, ends)
    return dropped


def _drop_month(month: Month, keep: QuerySet[Campaign], ends: float | None) -> bool:
    """Drop the samples of a month, then delete the series that had them, then drop its events: as long as these are
    there, the month is not done. False if there was not enough time."""
    with transaction.atomic():
        for run in _kept_runs(month, keep):
            _blocks_of([run], month.month).update(month=months.KEPT)
        months.drop(months.BLOCKS, month.month)
    runs = list(_runs_of(month.month).exclude(campaign__in=keep).values_list("pk", flat=True))
    for first in range(0, len(runs), BATCH):
        _delete_series(runs[first : first + BATCH])
        if ends and time.monotonic() > ends:
            return False
    with transaction.atomic():
        for run in _kept_runs(month, keep):
            for events in _events_of([run], month.month):
                events.update(month=months.KEPT)
        audit(None, "details.drop", f"{month.month:%Y-%m}", after={"runs": month.runs})
        months.drop(months.EVENTS, month.month)
    return True


def _kept_runs(month: Month, keep: QuerySet[Campaign]) -> Sequence[UUID]:
    return list(_runs_of(month.month).filter(campaign__in=keep).values_list("pk", flat=True))


def _events_of(runs: Sequence[UUID], month: date) -> list[QuerySet[RunEvent]]:
    """Return the events of these runs and of their parts in a month. No join, because a statement that changes rows
    would then select them by an id, which no index has."""
    parts = list(RunPart.objects.filter(run__in=runs).values_list("pk", flat=True))
    of_month = RunEvent.objects.filter(month=month)
    return [of_month.filter(run__in=runs), of_month.filter(part__in=parts)]


def _blocks_of(runs: Sequence[UUID], month: date) -> QuerySet[Block]:
    """Return the blocks of these runs in a month, also without a join."""
    series = list(Series.objects.filter(run__in=runs).values_list("pk", flat=True))
    return Block.objects.filter(month=month, series__in=series)


@transaction.atomic
def _delete_series(runs: Sequence[UUID]) -> None:
    """Delete the series of these runs, with their blocks in the partitions `kept` and `other`."""
    series = list(Series.objects.filter(run__in=runs).values_list("pk", flat=True))
    Block.objects.filter(series__in=series).delete()
    Series.objects.filter(pk__in=series).delete()


def _delete_kept(cutoff: datetime, keep: QuerySet[Campaign], ends: float | None) -> None:
    """Delete the details of old runs that are in no month: those from before there were months. The next task continues
    where this one ended."""
    rows = RunEvent.objects.filter(month=months.KEPT)
    place: UUID | None = cache.get(PLACE)
    while ends is None or time.monotonic() < ends:
        later = rows.filter(run__gt=place) if place else rows.filter(run__isnull=False)
        batch: list[Any] = list(later.order_by("run").values_list("run", flat=True).distinct()[:BATCH])
        place = batch[-1] if batch else None
        old = Run.objects.filter(pk__in=batch, ended_at__lt=cutoff).exclude(campaign__in=keep)
        _delete_details(list(old.values_list("pk", flat=True)))
        if not batch:
            break
    cache.set(PLACE, place, None)


@transaction.atomic
def _delete_details(runs: Sequence[UUID]) -> None:
    for events in _events_of(runs, months.KEPT):
        events.delete()
    _delete_series(runs)
