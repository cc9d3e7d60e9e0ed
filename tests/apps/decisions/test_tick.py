"""`manage.py tick` does the same periodic work as the beat."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery.signals import task_prerun
from django.core.management import call_command
from django.utils import timezone

from apps.accounts.models import Role
from apps.campaigns.models import Run
from apps.celery import app
from apps.hosts import services
from apps.hosts.models import Host
from apps.results.models import Series
from tests.rows import populate


@pytest.fixture
def carried_out() -> Iterator[list[str]]:
    """The names of the tasks that Celery begins, in their order."""
    names: list[str] = []

    def note(sender: Any, **_: Any) -> None:
        names.append(sender.name)

    task_prerun.connect(note)
    yield names
    task_prerun.disconnect(note)


def test_tick_does_all_periodic_work_in_the_order_of_the_list(db: None, carried_out: list[str]) -> None:
    call_command("tick")

    assert carried_out == [each["task"] for each in app.conf.beat_schedule.values()]


def test_tick_thins_old_series(db: None, settings: Any) -> None:
    settings.RETAIN_DAYS = 180
    populate.finished(populate.user(Role.OPERATOR), populate.host(), repetitions=1)
    Run.objects.update(ended_at=timezone.now() - timedelta(days=200))
    assert Series.objects.filter(thinned_s=None).exists()

    call_command("tick")

    assert not Series.objects.filter(thinned_s=None).exists()


@pytest.mark.django_db(transaction=True)
def test_a_check_can_be_requested_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    host, admin = populate.host(), populate.user(Role.ADMIN)
    monkeypatch.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")

    services.request_check(host, by=admin)

    host.refresh_from_db()
    assert host.check_requested_at is not None
    call_command("tick")
    host.refresh_from_db()
    assert (host.check_requested_at, host.state) == (None, Host.State.UNREACHABLE)
