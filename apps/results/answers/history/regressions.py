"""Compare each campaign of a schedule with earlier ones, once, when its results have been read."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.urls import reverse

from apps.accounts.notices.notify import notify
from apps.campaigns.models import Run, Slot
from apps.infrastructure import faults
from apps.results.answers.history.trend import trend


def compare_due(now: datetime) -> None:
    """Compare the campaigns of slots that ended, were read and have not been compared."""
    unread = Run.objects.filter(campaign=OuterRef("campaign"), outcome=Run.Outcome.OK, ingested_at=None)
    due = Slot.objects.filter(campaign__ended_at__isnull=False, compared_at=None).filter(~Exists(unread))
    for slot in due.select_related("schedule__campaign__workload", "schedule__campaign__host").order_by("at"):
        with faults.apart(f"comparison of campaign {slot.campaign_id} with earlier ones"):
            store_regression(slot, now)


@transaction.atomic
def store_regression(slot: Slot, now: datetime) -> None:
    """Store what is worse than in earlier campaigns, and notify of it. Does nothing if another worker has done it."""
    schedule_trend = trend(slot.schedule, slot.at)
    is_newest = schedule_trend.newest is not None and schedule_trend.newest.pk == slot.pk
    worse = schedule_trend.regression if is_newest else ""
    if not Slot.objects.filter(pk=slot.pk, compared_at=None).update(compared_at=now, regression=worse) or not worse:
        return
    payload = {
        "text": worse,
        "path": reverse("schedule_detail", args=[slot.schedule_id]),
        "schedule": str(slot.schedule_id),
        "campaign": str(slot.campaign_id),
        "host": slot.schedule.campaign.host.name,
    }
    notify("schedule.regression", f"{slot.campaign} is worse than the earlier campaigns", payload, about=[slot])
