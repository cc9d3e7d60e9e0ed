"""Limits on password guesses and mails from one address, and links that logs do not contain."""

from __future__ import annotations

import logging
import uuid
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.test import Client, RequestFactory
from django.urls import reverse

from apps.accounts import attempts
from apps.accounts.attempts import FAILED_LOGINS, FORGOTTEN, counted_address
from apps.accounts.models import Role, User
from apps.infrastructure import waking
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
    """An address in a network of its own for each test, because the cache is shared."""
    return f"2001:db8:{uuid.uuid4().hex[:4]}:{uuid.uuid4().hex[:4]}::1"


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

    assert log_in(address, "olga", populate.PASSWORD) == 429
    assert log_in(address.replace("db8", "db9"), "olga", populate.PASSWORD) == 302


def test_one_network_of_ipv6_is_one_client(olga: User, address: str) -> None:
    """Whoever has an address of IPv6 has 2^64 of them."""
    near = [address.replace("::1", f":{number:x}::{number:x}") for number in range(1, FAILED_LOGINS.most + 2)]
    tried = [log_in(near[number], f"name{number}") for number in range(FAILED_LOGINS.most)]

    assert 429 not in tried
    assert log_in(near[-1], "olga", populate.PASSWORD) == 429
    assert log_in(address.replace("db8", "db9"), "olga", populate.PASSWORD) == 302


def test_a_name_is_locked_for_a_network_of_ipv6(olga: User, address: str) -> None:
    for number in range(settings.AXES_FAILURE_LIMIT):
        log_in(address.replace("::1", f"::{number + 2:x}"), "olga")

    assert log_in(address, "olga", populate.PASSWORD) == 429
    assert log_in(address.replace("db8", "db9"), "olga", populate.PASSWORD) == 302


def test_the_page_of_a_locked_name_says_when_to_try_again(olga: User, address: str) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT):
        log_in(address, "olga")

    answer = Client().post(reverse("login"), {"username": "olga", "password": populate.PASSWORD}, REMOTE_ADDR=address)

    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "900")
    assert "this user name is locked for your address: try again in 15 min." in answer.content.decode()


@pytest.mark.parametrize(
    ("client", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("unix:", "unix:"),
    ],
)
def test_limits_are_counted_for_an_address_or_a_network(client: str, counted: str) -> None:
    assert counted_address(RequestFactory().get("/", REMOTE_ADDR=client)) == counted


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
