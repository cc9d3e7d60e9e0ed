"""/healthz and /readyz, which healthchecks ask without a login."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from apps.celery import app

BUILD = {"version": settings.VERSION, "commit": settings.COMMIT}
READY = dict.fromkeys(("database", "migrations", "cache", "broker"), "ok") | BUILD


@pytest.fixture
def disconnected(django_db_blocker: Any) -> None:
    """A test before may have left a connection open, which the end of a response would check."""
    with django_db_blocker.unblock():
        connection.close()


@pytest.mark.usefixtures("disconnected")
def test_the_process_answers_without_a_database() -> None:
    assert Client().get("/healthz").json() == {"process": "ok"}


@pytest.mark.django_db
def test_ready_when_all_of_it_answers() -> None:
    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()) == (200, READY)


@pytest.mark.usefixtures("disconnected")
def test_a_database_that_is_down_is_tried_once(monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any) -> None:
    attempts: list[int] = []
    connect = connection.get_new_connection
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {})  # without a pool
    monkeypatch.setattr(connection, "get_new_connection", lambda how: (attempts.append(1), connect(how))[1])

    with django_db_blocker.unblock():
        answer = Client().get("/readyz")

    assert answer.json() == READY | {"database": "unreachable", "migrations": "unreachable"}
    assert len(attempts) == 1


@pytest.mark.django_db
def test_not_ready_without_a_broker_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")

    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()) == (503, READY | {"broker": "unreachable"})


@pytest.mark.django_db
def test_not_ready_without_a_cache(settings: Any) -> None:
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/9"}}

    assert Client().get("/readyz").json() == READY | {"cache": "unreachable"}


@pytest.mark.django_db
def test_not_ready_while_the_database_is_of_an_older_version() -> None:
    MigrationRecorder(connection).migration_qs.filter(app="decisions").delete()

    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()) == (503, READY | {"migrations": "behind"})


@pytest.mark.usefixtures("disconnected")
def test_only_reading_is_answered() -> None:
    assert Client().post("/healthz").status_code == 405
