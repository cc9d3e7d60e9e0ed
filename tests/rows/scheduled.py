"""A schedule with a past, for pages that show it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Schedule, Slot
from apps.campaigns.schedules.services import create_schedule
from apps.results.models import Measurement
from tests.rows.factories import make_campaign

WORKDAYS = [{"days": [0, 1, 2, 3, 4], "from": "00:00", "to": "06:00"}]
PAST = (
    (Slot.Outcome.SKIPPED, "outside its window: Mon to Fri 00:00 to 06:00"),
    (Slot.Outcome.MISSED, "the server was down until 09:40 CET; the maximum delay is 30 min"),
    (Slot.Outcome.REFUSED, "bench-01 has no PostgreSQL 17; choose another target"),
)


def nightly(by: User, campaign: Campaign) -> Schedule:
    """Every night for a few days: one campaign, which is that of the schedule itself, and times without one."""
    made = create_schedule(campaign, by=by, name="Nightly", when="daily 02:30", time_zone="Europe/Berlin")
    newest = timezone.now().replace(hour=1, minute=30, second=0, microsecond=0)
    for days, (outcome, reason) in enumerate(PAST, 2):
        at = newest - timedelta(days=days)
        Slot.objects.create(schedule=made, at=at, outcome=outcome, reason=reason, decided_at=at)
    started = {"campaign": campaign, "outcome": Slot.Outcome.STARTED, "decided_at": newest}
    Slot.objects.create(schedule=made, at=newest - timedelta(days=1), **started)
    return made


def measured(schedule: Schedule, at: datetime, factor: float) -> Slot:
    """A time at which a campaign started that has ended: two levels, three runs each, `factor` times the usual TPS."""
    design = {"host": schedule.campaign.host, "workload": schedule.campaign.workload}
    done = make_campaign(Campaign.State.FINISHED, by=schedule.owner, name=f"{schedule} {at:%Y-%m-%d}", **design)
    Measurement.objects.filter(run__campaign=done, name="tps").update(value=F("value") * factor)
    return Slot.objects.create(schedule=schedule, at=at, outcome=Slot.Outcome.STARTED, campaign=done, decided_at=at)
