"""Rows that are deleted every hour, and rows that remain."""

from __future__ import annotations

from datetime import timedelta

import pytest
from axes.models import AccessAttempt, AccessLog
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts import tasks
from apps.accounts.models import IdempotentRequest, Role, Session, User
from apps.celery import app
from tests.rows import populate


@pytest.fixture
def user(db: None) -> User:
    return populate.user(Role.OPERATOR, "olga")


def log_in(password: str) -> None:
    Client().post(reverse("login"), {"username": "olga", "password": password})


@pytest.mark.parametrize("forget", [tasks.forget, lambda: call_command("tick")], ids=["beat", "tick"])
def test_expired_rows_are_deleted_and_the_others_remain(user: User, forget: object) -> None:
    long_ago = timezone.now() - timedelta(days=91)
    for _ in range(2):
        log_in(populate.PASSWORD)
    old = Session.objects.first()
    assert old
    Session.objects.filter(pk=old.pk).update(expire_date=timezone.now() - timedelta(minutes=1))
    AccessLog.objects.filter(pk=AccessLog.objects.latest("pk").pk).update(attempt_time=long_ago)
    for key in ("yesterday", "now"):
        IdempotentRequest.objects.create(user=user, key=key, path="/")
    IdempotentRequest.objects.filter(key="yesterday").update(created_at=timezone.now() - timedelta(hours=24))

    assert callable(forget)
    forget()

    assert [session.pk for session in Session.objects.all()] != [old.pk]
    assert (Session.objects.count(), AccessLog.objects.count()) == (1, 1)
    assert [idempotent_request.key for idempotent_request in IdempotentRequest.objects.all()] == ["now"]


def test_failed_logins_are_deleted_when_their_lock_has_expired(user: User) -> None:
    log_in("wrong")
    tasks.forget()
    assert AccessAttempt.objects.get().username == "olga"

    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    tasks.forget()

    assert not AccessAttempt.objects.exists()


def test_the_beat_calls_the_upkeep(user: User) -> None:
    assert tasks.forget.name in {each["task"] for each in app.conf.beat_schedule.values()}
