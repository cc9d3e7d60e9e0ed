"""/healthz and /readyz, which healthchecks ask without a login."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.celery import app


def test_the_process_answers_without_a_database() -> None:
    assert Client().get("/healthz").json() == {"process": "ok"}


@pytest.mark.django_db
def test_ready_when_database_and_broker_answer() -> None:
    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()) == (200, {"database": "ok", "broker": "ok"})


@pytest.mark.django_db
def test_not_ready_without_a_broker_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")

    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()) == (503, {"database": "ok", "broker": "unreachable"})


def test_only_reading_is_answered() -> None:
    assert Client().post("/healthz").status_code == 405
