"""Enrol, change and remove a second factor on its page, and what a stolen session cannot do."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pyotp
import pytest
from cryptography.fernet import Fernet
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts import upkeep
from apps.accounts.models import AuditEntry, SecondFactor, Session, User
from apps.accounts.second_factor import factors, policy
from apps.operation import encrypted_fields
from tests.apps.accounts.second_factor.conftest import App, Clock, enter_password, is_logged_in, log_in
from tests.rows import populate

BOTH = {"password": populate.PASSWORD}


def start(client: Client, password: str = populate.PASSWORD) -> Any:
    return client.post(reverse("second_factor"), {"password": password})


def confirm(client: Client, code: str) -> Any:
    return client.post(reverse("second_factor_confirm"), {"code": code})


def test_a_user_enrols_with_password_and_code_and_sees_the_recovery_codes_once(olga: User, clock: Clock) -> None:
    client = enter_password(olga)

    secret = start(client).context["secret"]
    shown = confirm(client, pyotp.TOTP(secret).at(int(clock.now)))

    codes = shown.context["codes"].split()
    assert len(set(codes)) == factors.CODES
    assert all(re.fullmatch(r"[a-z2-9]{4}(-[a-z2-9]{4}){3}", code) for code in codes)
    assert policy.enrolled(olga)
    again = client.get(reverse("second_factor")).content.decode()
    assert not any(code in again for code in codes) and secret not in again
    assert AuditEntry.objects.get(action="factor.enrol").actor == olga


def test_the_qr_code_is_drawn_here_and_contains_name_and_server(olga: User, settings: Any) -> None:
    settings.BASE_URL = "https://proving.example.org"
    client = enter_password(olga)

    answer = start(client)

    text, secret = answer.content.decode(), answer.context["secret"]
    assert "<svg" in text
    assert "http" not in re.search(r"<svg.*?</svg>", text, re.S).group().replace("http://www.w3.org/2000/svg", "")  # type: ignore[union-attr]
    address = factors.address(olga, secret)
    assert address.startswith("otpauth://totp/Proving%20Ground%20proving.example.org:olga?secret=")


def test_an_enrolment_does_not_count_before_its_first_code(olga: User) -> None:
    start(enter_password(olga))

    assert not policy.enrolled(olga)
    assert is_logged_in(enter_password(olga))


def test_an_enrolment_ends_other_sessions_because_they_have_no_second_factor(olga: User, clock: Clock) -> None:
    stolen, client = enter_password(olga), enter_password(olga)

    secret = start(client).context["secret"]
    confirm(client, pyotp.TOTP(secret).at(int(clock.now)))

    assert is_logged_in(client)
    assert not is_logged_in(stolen)


def test_a_copy_of_the_session_cookie_from_before_the_enrolment_stops_working(olga: User, clock: Clock) -> None:
    client, thief = enter_password(olga), Client()
    secret = start(client).context["secret"]
    thief.cookies["sessionid"] = client.cookies["sessionid"].value

    confirm(client, pyotp.TOTP(secret).at(int(clock.now)))

    assert is_logged_in(client)
    assert not is_logged_in(thief)


def test_a_wrong_code_enrols_nothing_and_does_not_repeat_the_secret(olga: User) -> None:
    client = enter_password(olga)
    secret = start(client).context["secret"]

    answer = confirm(client, "000000")

    assert answer.status_code == 422
    assert "check the clock of your phone" in answer.content.decode().lower()
    assert secret not in answer.content.decode()
    assert not policy.enrolled(olga)


def test_guessing_the_first_code_ends_the_enrolment(olga: User, clock: Clock) -> None:
    client = enter_password(olga)
    secret = start(client).context["secret"]
    for _ in range(10):
        confirm(client, "000000")

    assert confirm(client, pyotp.TOTP(secret).at(int(clock.now))).status_code == 422
    assert not policy.enrolled(olga)


def test_an_enrolment_ends_after_half_an_hour_and_is_forgotten(olga: User, clock: Clock) -> None:
    client = enter_password(olga)
    secret = start(client).context["secret"]
    SecondFactor.objects.update(created_at=timezone.now() - timedelta(minutes=61))

    assert confirm(client, pyotp.TOTP(secret).at(int(clock.now))).status_code == 422
    upkeep.forget()
    assert not SecondFactor.objects.exists()


@pytest.mark.parametrize("password", ["", "wrong", populate.PASSWORD.upper()])
def test_a_stolen_session_starts_no_enrolment(olga: User, password: str) -> None:
    stolen = enter_password(olga)

    answer = start(stolen, password)

    assert answer.status_code == 422
    assert not SecondFactor.objects.exists()


@pytest.mark.parametrize("name", ["second_factor_remove", "second_factor_codes"])
def test_a_stolen_session_changes_nothing_without_password_and_code(app: App, name: str) -> None:
    stolen = log_in(app)
    before = sorted(app.user.recovery_codes.values_list("digest", flat=True))

    answers = [
        stolen.post(reverse(name), sent)
        for sent in ({}, BOTH, {"code": app.next_code()}, {"password": "wrong", "code": app.code()})
    ]

    assert [answer.status_code for answer in answers] == [422] * 4
    assert policy.enrolled(app.user)
    assert sorted(app.user.recovery_codes.values_list("digest", flat=True)) == before


def test_guessing_the_password_in_a_stolen_session_is_locked_like_a_login(app: App) -> None:
    stolen = log_in(app)

    answers = [start(stolen, "wrong") for _ in range(3)]
    answers += [stolen.post(reverse("second_factor_remove"), {"password": "wrong", "code": "1"}) for _ in range(12)]

    assert answers[-1].status_code in (403, 429)
    assert policy.enrolled(app.user)


def test_a_wrong_password_uses_up_no_code(app: App) -> None:
    client, code = log_in(app), app.next_code()

    client.post(reverse("second_factor_codes"), {"password": "wrong", "code": code})
    answer = client.post(reverse("second_factor_codes"), BOTH | {"code": code})

    assert answer.status_code == 200


def test_new_recovery_codes_end_the_old_ones(app: App) -> None:
    client = log_in(app)

    answer = client.post(reverse("second_factor_codes"), BOTH | {"code": app.next_code()})

    new = answer.context["codes"].split()
    assert not factors.verify(app.user, app.codes[0], address="192.0.2.1")
    assert factors.verify(app.user, new[0], address="192.0.2.1")
    assert AuditEntry.objects.filter(action="factor.codes", actor=app.user).exists()


def test_a_user_removes_the_second_factor_with_both_and_other_sessions_end(app: App) -> None:
    other, client = log_in(app), log_in(app)

    client.post(reverse("second_factor_remove"), BOTH | {"code": app.next_code()})

    assert not policy.enrolled(app.user)
    assert not app.user.recovery_codes.exists()
    assert is_logged_in(client)
    assert not is_logged_in(other)
    assert AuditEntry.objects.get(action="factor.remove").actor == app.user


def test_an_enrolled_user_cannot_enrol_a_second_app_by_the_password_alone(app: App) -> None:
    client = log_in(app)

    start(client)

    assert SecondFactor.objects.count() == 1
    assert factors.verify(app.user, app.next_code(), address="192.0.2.1")


def test_the_secret_is_rotated_with_the_other_encrypted_secrets(app: App, settings: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(encrypted_fields, "outdated_processes", list)
    settings.SSH_KEYS = [Fernet.generate_key().decode(), *settings.SSH_KEYS]

    encrypted_fields.rotate()
    settings.SSH_KEYS = settings.SSH_KEYS[:1]

    assert factors.verify(app.user, app.next_code(), address="192.0.2.1")


def test_without_the_key_the_step_names_the_cause_and_a_recovery_code_still_works(app: App, settings: Any) -> None:
    client = enter_password(app.user)
    settings.SSH_KEYS = [Fernet.generate_key().decode()]

    refused = client.post(reverse("second_step"), {"code": app.next_code()})
    client.post(reverse("second_step"), {"code": app.codes[0]})

    assert "no key of PROVING_SSH_KEYS decrypts the second factor of this user" in refused.content.decode()
    assert is_logged_in(client)


def test_the_sessions_of_a_user_are_counted_in_the_audit_log(olga: User, clock: Clock) -> None:
    enter_password(olga)
    client = enter_password(olga)
    secret = start(client).context["secret"]

    confirm(client, pyotp.TOTP(secret).at(int(clock.now)))

    assert AuditEntry.objects.get(action="factor.enrol").after == {"sessions_ended": 1}
    assert Session.objects.filter(user=olga).count() == 1
