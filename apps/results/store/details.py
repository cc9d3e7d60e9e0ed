"""Drop the details of old runs, month by month: the event log, with commands and evidence of proofs, and the series.

Measurements, findings, marks, the summary of the proof and raw outputs stay, so no verdict changes. Runs of campaigns
on which a decision rests keep their details: `keep` has these campaigns.

The events of a month are a partition, which is dropped as a whole. Before that, the series of its runs are deleted in
batches, and what outlives the month moves to the partition `kept`. A run that is interrupted in between continues."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.services import audit
from apps.campaigns.models import Campaign, Run, RunEvent
from apps.infrastructure import months
from apps.results.models import Block, Series

log = logging.getLogger(__name__)

WORK_S = 20.0  # of one task
BATCH = 500  # runs
PLACE = "details.kept.place"  # cache key: the last run whose kept rows were looked at


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
        runs = _runs_of(each.month).exclude(campaign__in=keep).filter(series__isnull=False)
        if not _delete_series(runs, ends):
            return dropped
        _drop_month(each, keep)
        dropped.append(each)
    _delete_kept(timezone.now() - timedelta(days=days), keep, ends)
    return dropped


def _delete_series(runs: QuerySet[Run], ends: float | None) -> bool:
    """Delete the series of these runs. False if there was not enough time."""
    while batch := list(runs.values_list("pk", flat=True).distinct()[:BATCH]):
        with transaction.atomic():
            Block.objects.filter(series__run__in=batch).delete()
            Series.objects.filter(run__in=batch).delete()
        if ends and time.monotonic() > ends:
            return False
    return True


@transaction.atomic
def _drop_month(month: Month, keep: QuerySet[Campaign]) -> None:
    of_month = RunEvent.objects.filter(month=month.month)
    for run in _runs_of(month.month).filter(campaign__in=keep).values_list("pk", flat=True):
        of_month.filter(run=run).update(month=months.KEPT)
        of_month.filter(part__run=run).update(month=months.KEPT)
    audit(None, "details.drop", f"{month.month:%Y-%m}", after={"runs": month.runs})
    months.drop(month.month)


def _delete_kept(cutoff: datetime, keep: QuerySet[Campaign], ends: float | None) -> None:
    """Delete the details of old runs that are in no month: those from before there were months. The next task continues
    where this one ended."""
    rows = RunEvent.objects.filter(month=months.KEPT)
    place: UUID | None = cache.get(PLACE)
    while ends is None or time.monotonic() < ends:
        later = rows.filter(run__gt=place) if place else rows.filter(run__isnull=False)
        batch: list[Any] = list(later.order_by("run").values_list("run", flat=True).distinct()[:BATCH])
        place = batch[-1] if batch else None
        _delete_of(Run.objects.filter(pk__in=batch, ended_at__lt=cutoff).exclude(campaign__in=keep))
        if not batch:
            break
    cache.set(PLACE, place, None)


@transaction.atomic
def _delete_of(runs: Iterable[Run]) -> None:
    old = [run.pk for run in runs]
    RunEvent.objects.filter(month=months.KEPT, run__in=old).delete()
    RunEvent.objects.filter(month=months.KEPT, part__run__in=old).delete()
    Block.objects.filter(series__run__in=old).delete()
    Series.objects.filter(run__in=old).delete()
