"""A user with an authenticator app, one with a passkey, and a clock that only the test advances."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyotp
import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.accounts.second_factor import factors
from tests.apps.accounts.second_factor.authenticator import Authenticator
from tests.rows import populate


@dataclass
class Clock:
    """Seconds since the epoch, as the server and the app read them."""

    now: float = 1.9e9

    def next_period(self) -> None:
        self.now += factors.PERIOD_S


@dataclass
class App:
    """An authenticator app of `user`, and the recovery codes that the enrolment showed."""

    user: User
    secret: str
    clock: Clock
    codes: list[str]

    def code(self, periods: int = 0) -> str:
        return pyotp.TOTP(self.secret).generate_otp(int(self.clock.now) // factors.PERIOD_S + periods)

    def next_code(self) -> str:
        """A code that no request has sent yet."""
        self.clock.next_period()
        return self.code()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Clock:
    cache.clear()
    clock = Clock()
    settings.BASE_URL = "https://proving.example.org"
    monkeypatch.setattr(factors, "time", SimpleNamespace(time=lambda: clock.now))
    return clock


def enrol(user: User, clock: Clock) -> App:
    secret = factors.begin(user)
    app = App(user, secret, clock, [])
    app.codes = factors.confirm(user, app.code(), session_key=None)
    clock.next_period()
    return app


@pytest.fixture
def olga(db: None) -> User:
    return populate.user(Role.OPERATOR, "olga")


@pytest.fixture
def ada(db: None) -> User:
    return populate.user(Role.ADMIN, "ada")


@pytest.fixture
def app(olga: User, clock: Clock) -> App:
    return enrol(olga, clock)


def enter_password(user: User, **extra: Any) -> Client:
    """A browser after the first step."""
    client = Client(**extra)
    client.post(reverse("login"), {"username": user.username, "password": populate.PASSWORD})
    return client


def log_in(app: App, **extra: Any) -> Client:
    """A browser after both steps."""
    client = enter_password(app.user, **extra)
    client.post(reverse("second_step"), {"code": app.next_code()})
    return client


def add_passkey(
    client: Client, device: Authenticator, name: str = "laptop", confirmation: dict[str, str] | None = None
) -> Any:
    """The last response when a user who is logged in adds `device`, confirmed by the password or by `confirmation`."""
    client.post(reverse("passkey_new"), confirmation or {"password": populate.PASSWORD})
    asked = client.post(reverse("passkey_creation"), {"name": name}).json()
    return client.post(reverse("passkey_add"), {"name": name, "passkey": device.create(asked)})


@pytest.fixture
def device(olga: User) -> Authenticator:
    """The passkey of olga."""
    device = Authenticator()
    add_passkey(enter_password(olga), device)
    return device


def options(client: Client) -> Any:
    """The options for a sign-in."""
    return client.post(reverse("passkey_sign_in_options")).json()


def sign_in(client: Client, device: Authenticator, **sent: str) -> Any:
    """The response to a login with `device` alone."""
    return client.post(reverse("passkey_sign_in"), {"passkey": device.get(options(client)), **sent})


def is_logged_in(client: Client) -> bool:
    return client.get(reverse("account")).status_code == 200
