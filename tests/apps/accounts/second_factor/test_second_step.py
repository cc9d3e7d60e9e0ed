"""The second step of a login, and the attacks on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import AuditEntry, RecoveryCode, SecondFactor, Session, User
from apps.accounts.models.second_factor import MOST_FAILURES
from apps.accounts.second_factor import factors, login
from apps.accounts.team import people
from tests.apps.accounts.second_factor.authenticator import Authenticator
from tests.apps.accounts.second_factor.conftest import App, enter_password, is_logged_in, log_in, sign_in
from tests.rows import populate
from tests.rows.factories import script

STEP = "/login/second-step/"


def step(client: Client, code: str, **extra: Any) -> Any:
    return client.post(STEP, {"code": code}, **extra)


def test_a_password_alone_opens_nothing_and_starts_no_session(app: App) -> None:
    client = Client()

    answer = client.post(reverse("login"), {"username": "olga", "password": populate.PASSWORD, "next": "/hosts/"})

    assert answer["Location"] == STEP
    assert not is_logged_in(client)
    assert client.get("/api/v1/me/").status_code == 401
    assert not Session.objects.filter(user=app.user).exists()


def test_password_and_code_open_the_page_that_was_requested(app: App) -> None:
    client = Client()
    client.post(reverse("login") + "?next=/hosts/", {"username": "olga", "password": populate.PASSWORD})

    answer = step(client, app.code())

    assert (answer.status_code, answer["Location"]) == (302, "/hosts/")
    assert is_logged_in(client)


@pytest.mark.parametrize("address", ["https://evil.example.org/", "//evil.example.org", "javascript:alert(1)"])
def test_the_second_step_redirects_to_no_other_server(app: App, address: str) -> None:
    client = Client()
    client.post(reverse("login"), {"username": "olga", "password": populate.PASSWORD, "next": address})

    assert step(client, app.code())["Location"] == reverse("home")


def test_a_user_without_a_second_factor_logs_in_as_before(olga: User) -> None:
    assert is_logged_in(enter_password(olga))


def test_the_second_step_without_a_password_leads_to_the_login(app: App) -> None:
    client = Client()

    answers = [client.get(STEP), step(client, app.code())]

    assert [answer["Location"] for answer in answers] == [reverse("login")] * 2


def test_the_second_step_has_to_follow_within_five_minutes(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    client = enter_password(app.user)
    later = login.time.time() + login.PENDING_S + 1
    monkeypatch.setattr(login.time, "time", lambda: later)

    assert step(client, app.code())["Location"] == reverse("login")
    assert not is_logged_in(client)


def test_a_code_works_once(app: App) -> None:
    code = app.code()

    first, replay = enter_password(app.user), enter_password(app.user)
    step(first, code)
    refused = step(replay, code)

    assert is_logged_in(first)
    assert refused.status_code == 422
    assert "already used" in refused.content.decode()
    assert not is_logged_in(replay)


def test_the_code_of_the_enrolment_cannot_be_replayed(app: App) -> None:
    app.clock.now -= factors.PERIOD_S

    assert step(enter_password(app.user), app.code()).status_code == 422


def test_an_older_code_is_refused_after_a_newer_one(app: App) -> None:
    older, newer = app.code(), app.code(1)
    step(enter_password(app.user), newer)

    assert step(enter_password(app.user), older).status_code == 422


@pytest.mark.parametrize(("periods", "status"), [(-2, 422), (-1, 302), (0, 302), (1, 302), (2, 422)])
def test_the_clock_of_the_phone_may_be_wrong_by_one_period(app: App, periods: int, status: int) -> None:
    app.clock.now += 10 * factors.PERIOD_S

    assert step(enter_password(app.user), app.code(periods)).status_code == status


@pytest.mark.parametrize("code", ["", "12345", "000000 0", "abcdef", "١٢٣٤٥٦", "😀", "x" * 41])
def test_an_invalid_code_is_refused(app: App, code: str) -> None:
    client = enter_password(app.user)

    assert step(client, code).status_code == 422
    assert not is_logged_in(client)


def test_guessing_locks_the_user_for_all_addresses(app: App) -> None:
    for number in range(MOST_FAILURES):
        client = enter_password(app.user, REMOTE_ADDR=f"192.0.2.{number}")
        assert step(client, "000000").status_code == 422

    client = enter_password(app.user, REMOTE_ADDR="198.51.100.1")
    locked = step(client, app.code())

    assert locked.status_code == 422
    assert "too many wrong codes for this user. Try again in 15 min." in locked.content.decode()
    assert not is_logged_in(client)
    assert AuditEntry.objects.filter(action="login.refused").count() == MOST_FAILURES


def test_guessing_recovery_codes_locks_a_user_with_a_passkey_alone_but_not_the_passkey(
    olga: User, device: Authenticator
) -> None:
    codes = factors.renew_codes(olga)
    for number in range(MOST_FAILURES):
        client = enter_password(olga, REMOTE_ADDR=f"192.0.2.{number}")
        assert step(client, "abcd-efgh-jkmn-pqrs").status_code == 422

    locked = step(enter_password(olga, REMOTE_ADDR="198.51.100.1"), codes[0])

    assert "too many wrong codes for this user" in locked.content.decode()
    assert factors.codes_left(olga) == factors.CODES
    client = Client()
    sign_in(client, device)
    assert is_logged_in(client)


def test_parallel_guesses_are_all_counted(transactional_db: None, olga: User, device: Authenticator) -> None:
    together = Barrier(8)

    def guess(number: int) -> None:
        together.wait()
        try:
            factors.verify(olga, "abcd-efgh-jkmn-pqrs", address=f"192.0.2.{number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(guess, range(8)))

    assert User.objects.get().wrong_codes == 8


def test_the_lock_ends_after_15_minutes(app: App) -> None:
    wrong_code_at = timezone.now() - timedelta(minutes=15, seconds=1)
    User.objects.update(wrong_codes=MOST_FAILURES, wrong_code_at=wrong_code_at)

    assert is_logged_in(log_in(app))
    assert User.objects.get().wrong_codes == 0


def test_a_lock_also_refuses_recovery_codes(app: App) -> None:
    User.objects.update(wrong_codes=MOST_FAILURES, wrong_code_at=timezone.now())

    assert step(enter_password(app.user), app.codes[0]).status_code == 422
    assert factors.codes_left(app.user) == factors.CODES


def test_an_address_that_guesses_is_refused_for_all_users(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    client = enter_password(app.user)
    for _ in range(30):
        User.objects.update(wrong_codes=0)
        step(client, "000000")

    assert step(client, app.code()).status_code == 429


def test_a_recovery_code_works_once_however_it_is_typed(app: App) -> None:
    first, again = enter_password(app.user), enter_password(app.user)

    step(first, f" {app.codes[0].upper()} ")
    refused = step(again, app.codes[0].replace("-", ""))

    assert is_logged_in(first)
    assert refused.status_code == 422
    assert not is_logged_in(again)
    assert factors.codes_left(app.user) == factors.CODES - 1
    assert AuditEntry.objects.get(action="login.recovery_code").after == {"left": factors.CODES - 1}


def test_the_database_has_neither_the_secret_nor_a_recovery_code(app: App) -> None:
    stored = [*SecondFactor.objects.values_list("secret_encrypted", flat=True)]
    stored += RecoveryCode.objects.values_list("digest", flat=True)

    assert not any(secret in text for text in stored for secret in (app.secret, *app.codes))
    assert not any(code.replace("-", "") in text for text in stored for code in app.codes)


def test_a_code_of_another_user_is_refused(app: App, ada: User) -> None:
    secret = factors.begin(ada)
    other = App(ada, secret, app.clock, [])
    other.codes = factors.confirm(ada, other.code(), session_key=None)
    other.clock.next_period()

    client = enter_password(app.user)

    assert step(client, other.code()).status_code == 422
    assert step(client, other.codes[0]).status_code == 422


def test_a_password_that_changes_in_between_ends_the_login(app: App) -> None:
    client = enter_password(app.user)
    app.user.set_password("another horse battery")
    app.user.save()

    assert step(client, app.code())["Location"] == reverse("login")


def test_a_deactivated_user_does_not_finish_the_login(app: App) -> None:
    client = enter_password(app.user)
    User.objects.update(is_active=False)

    assert step(client, app.code())["Location"] == reverse("login")


def test_the_session_has_another_key_after_the_second_step(app: App) -> None:
    client = Client()
    client.get(reverse("login"))
    client.post(reverse("login"), {"username": "olga", "password": populate.PASSWORD})
    pending = client.cookies["sessionid"].value

    step(client, app.code())

    assert client.cookies["sessionid"].value != pending


def test_a_link_to_set_a_password_does_not_replace_the_second_factor(app: App, settings: Any) -> None:
    client, new = Client(), "another horse battery"
    link = people.link(User.objects.get(pk=app.user.pk)).removeprefix(settings.BASE_URL)
    form = client.get(link, follow=True)
    client.post(form.redirect_chain[-1][0], {"new_password1": new, "new_password2": new})

    answer = client.post(reverse("login"), {"username": "olga", "password": new})

    assert answer["Location"] == STEP


def test_a_token_needs_no_second_factor(app: App) -> None:
    assert script(app.user).get("/api/v1/me/").status_code == 200


def test_a_reset_between_form_and_code_refuses_the_code(app: App) -> None:
    factors.reset(app.user, by=None)
    secret = factors.begin(app.user)

    assert not factors.verify(app.user, App(app.user, secret, app.clock, []).code(), address="192.0.2.1")


@pytest.mark.parametrize("recovery", [False, True])
def test_of_simultaneous_requests_with_one_code_one_is_accepted(
    transactional_db: None, app: App, recovery: bool
) -> None:
    code, together = app.codes[0] if recovery else app.code(), Barrier(4)

    def verify(number: int) -> bool:
        together.wait()
        try:
            return factors.verify(app.user, code, address=f"192.0.2.{number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        accepted = list(pool.map(verify, range(4)))

    assert sum(accepted) == 1
