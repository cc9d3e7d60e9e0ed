"""Limits on password guesses and mails from one address, and links that logs do not contain."""

from __future__ import annotations

import logging
import uuid
from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts import waking
from apps.accounts.models import Role, User
from apps.accounts.web import attempts
from apps.accounts.web.attempts import FAILED_LOGINS, FORGOTTEN
from apps.logs import WithoutSecrets
from tests.rows import populate


@pytest.fixture
def olga(db: None) -> User:
    return populate.user(Role.OPERATOR, "olga")


@pytest.fixture(autouse=True)
def one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped clock, so that no window ends during a test."""
    monkeypatch.setattr(attempts, "time", SimpleNamespace(time=lambda: 1.8e9))


@pytest.fixture
def address() -> str:
    """An address of its own for each test, because the cache is shared."""
    return f"2001:db8::{uuid.uuid4().hex[:4]}:{uuid.uuid4().hex[:4]}"


def log_in(address: str, name: str, password: str = "wrong") -> int:
    sent = {"username": name, "password": password}
    return Client().post(reverse("login"), sent, REMOTE_ADDR=address).status_code


def test_names_are_not_sprayed_from_one_address(olga: User, address: str) -> None:
    tried = [log_in(address, f"name{number}") for number in range(FAILED_LOGINS.most)]

    assert 429 not in tried
    assert log_in(address, "olga", populate.PASSWORD) == 429
    assert log_in(address.replace("db8", "db9"), "olga", populate.PASSWORD) == 302


def test_failed_logins_from_one_address_do_not_lock_out_others(olga: User, address: str) -> None:
    for _ in range(12):
        log_in(address, "olga")

    assert log_in(address, "olga", populate.PASSWORD) in (403, 429)
    assert log_in(address.replace("db8", "db9"), "olga", populate.PASSWORD) == 302


def test_links_for_forgotten_passwords_are_few(db: None, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(waking, "send", lambda task, *args: sent.append(task))

    answers = [
        Client().post(reverse("password_forgot"), {"email": f"a{number}@example.org"}, REMOTE_ADDR=address)
        for number in range(FORGOTTEN.most + 3)
    ]

    assert len(sent) == FORGOTTEN.most
    assert [answer.status_code for answer in answers[-3:]] == [429] * 3
    assert int(answers[-1].headers["Retry-After"]) <= FORGOTTEN.window_s


@pytest.mark.parametrize(
    ("line", "logged"),
    [
        ('"GET /password/MQ/c1x2-abc/ HTTP/1.1" 302', '"GET /password/MQ/[secret]/ HTTP/1.1" 302'),
        ('"GET /feed/s3cr3t/timeline.atom?team=1 HTTP/1.1"', '"GET /feed/[secret]/timeline.atom?team=1 HTTP/1.1"'),
        ('"GET /password/forgot/ HTTP/1.1" 200', '"GET /password/forgot/ HTTP/1.1" 200'),
        ('"GET /hosts/db1/ HTTP/1.1" 200', '"GET /hosts/db1/ HTTP/1.1" 200'),
    ],
)
def test_a_log_keeps_no_link_that_lets_in(line: str, logged: str) -> None:
    record = logging.LogRecord("gunicorn.access", logging.INFO, "", 0, "%s", (line,), None)

    assert WithoutSecrets().filter(record)
    assert record.getMessage() == logged
