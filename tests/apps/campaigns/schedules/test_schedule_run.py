"""A schedule starts real campaigns on this machine, and its page compares them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run, Slot
from apps.campaigns.schedules import firing, services
from apps.hosts.models import Host
from apps.results.answers.history.trend import trend
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)
WAL = {
    "name": "wal_buffers",
    "levels": [{"label": size, "set": {"settings.postgresql.wal_buffers": size}} for size in ("4MB", "8MB")],
}


def test_two_nights_of_a_schedule_are_measured_and_compared(host: Host, admin: User) -> None:
    once = campaigns.finish(campaigns.start(host, admin, WAL, time_s=1))
    yesterday = timezone.now() - timedelta(days=1)
    nightly = services.create_schedule(
        once, by=admin, name="nightly", when=f"daily {yesterday:%H:%M}", time_zone="UTC", now=yesterday
    )

    for night in range(2):
        now = timezone.now() + timedelta(days=night, minutes=1)
        for due in firing.due(now):
            firing.fire(due, now)
        for running in Campaign.objects.filter(slot__schedule=nightly, ended_at=None):
            campaigns.finish(running)

    slots = nightly.slots.order_by("at")
    assert [slot.outcome for slot in slots] == [Slot.Outcome.STARTED] * 2
    for slot in slots:
        assert slot.campaign and slot.campaign.name.startswith("nightly 20")
        runs = slot.campaign.runs.order_by("position")
        assert [run.outcome for run in runs] == [Run.Outcome.OK] * 2, [run.error for run in runs]
        for run in runs:
            assert f"postgresql wal_buffers: {run.cell['wal_buffers']}" in run.proof["lines"]
    comparison = trend(nightly)
    assert sorted((point.level, point.runs) for point in comparison.points) == [("4MB", 1)] * 2 + [("8MB", 1)] * 2
    assert comparison.newest and comparison.earlier == 1 and comparison.missing == 4
    assert not comparison.host_changes
