"""Pages of a schedule with a history, a regression and a changed kernel: both themes, desktop and phone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page

from apps.accounts.models import Role
from apps.campaigns.models import Schedule, Slot
from apps.hosts.models import Facts
from apps.results.answers.history import regressions
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import OVERFLOW, in_each_view, shot
from tests.rows import populate
from tests.rows.factories import make_campaign, make_host, make_schedule
from tests.rows.scheduled import PAST, WORKDAYS, measured

pytestmark = pytest.mark.e2e
FACTORS = (1.0, 1.012, 0.991, 1.004, 0.985, 1.009, 0.995, 0.9)


@pytest.fixture
def schedule(transactional_db: None) -> Schedule:
    operator = populate.user(Role.OPERATOR, "olga")
    campaign = make_campaign(host=make_host("bench-01", time_zone="Europe/Berlin"), name="Scaling over CPUs")
    made = make_schedule(campaign, by=operator, name="Nightly", time_zone="Europe/Berlin", windows=WORKDAYS)
    first = timezone.now().replace(hour=1, minute=30, second=0, microsecond=0) - timedelta(days=14)
    slots = [measured(made, first + timedelta(days=day), factor) for day, factor in enumerate(FACTORS)]
    _newer_kernel(slots[4:])
    _without_campaigns(made, first + timedelta(days=len(FACTORS)))
    regressions.compare_due(timezone.now())
    return made


def _newer_kernel(slots: list[Slot]) -> None:
    host = slots[0].schedule.campaign.host
    data = json.loads(json.dumps(host.facts))
    data["kernel"]["release"] = "6.6.0"
    newer = Facts.objects.create(host=host, number=2, digest="1" * 64, data=data)
    for slot in slots:
        slot.campaign.runs.update(facts=newer)  # type: ignore[union-attr]


def _without_campaigns(schedule: Schedule, first: datetime) -> None:
    for days, (outcome, reason) in enumerate(PAST):
        at = first + timedelta(days=days)
        Slot.objects.create(schedule=schedule, at=at, outcome=outcome, reason=reason, decided_at=at)


@in_each_view
def test_the_pages_of_a_schedule_fit_and_are_accessible(
    open_as: Callable[..., Page], schedule: Schedule, width: int, theme: str
) -> None:
    page = open_as(schedule.owner, width=width, theme=theme)
    detail = reverse("schedule_detail", args=[schedule.pk])
    addresses = {
        "schedules": reverse("schedule_list"),
        "schedule": detail,
        "schedule-table": f"{detail}?view=table",
        "schedule-add": f"{reverse('schedule_add')}?campaign={schedule.campaign_id}",
        "schedule-change": reverse("schedule_change", args=[schedule.pk]),
    }

    for name, address in addresses.items():
        page.goto(address)
        page.wait_for_selector("[data-figure]:not([data-drawn])", state="detached")
        shot(page, f"{name}-history-{width}-{theme}")
        assert (name, violations(page, *WCAG)) == (name, [])
        assert page.evaluate(OVERFLOW) <= 0, name
    assert page.messages == []  # type: ignore[attr-defined]
