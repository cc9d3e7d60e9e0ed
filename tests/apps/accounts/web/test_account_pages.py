"""Logging in, tokens and passwords."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import ApiToken, Role, User
from apps.accounts.web.pages import spoken
from common.errors import HostError, PlanError, ProvingError
from tests.rows import populate


@pytest.fixture
def operator(client: Client, db: None) -> User:
    user = populate.user(Role.OPERATOR, "olga")
    client.force_login(user)
    return user


def test_a_token_is_shown_once(client: Client, operator: User) -> None:
    answer = client.post(reverse("token_add"), {"name": "nightly", "role": "viewer", "days": "30"})

    secret = answer.context["secret"]
    assert ApiToken.objects.get().digest == ApiToken.hash(secret)
    assert secret in answer.content.decode()
    assert secret not in client.get(reverse("account")).content.decode()


@pytest.mark.parametrize(("field", "value"), [("role", "admin"), ("name", " "), ("days", "1000")])
def test_a_token_beyond_what_is_allowed_is_refused_beside_its_field(
    client: Client, operator: User, field: str, value: str
) -> None:
    answer = client.post(reverse("token_add"), {"name": "x", "role": "viewer", "days": "30"} | {field: value})

    assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])
    assert not ApiToken.objects.exists()


def test_only_one_s_own_tokens_are_revoked_here(client: Client, operator: User) -> None:
    mine, _ = ApiToken.issue(operator, "mine", Role.VIEWER)
    other, _ = ApiToken.issue(populate.user(Role.VIEWER), "other", Role.VIEWER)

    client.post(reverse("token_revoke", args=[mine.pk]))
    refused = client.post(reverse("token_revoke", args=[other.pk]))

    assert refused.status_code == 404
    assert list(ApiToken.objects.all()) == [other]


def test_a_password_is_changed_with_the_old_one_and_stays_logged_in(client: Client, operator: User) -> None:
    new = "a longer horse battery"
    typed = {"old_password": populate.PASSWORD, "new_password1": new, "new_password2": new}

    client.post(reverse("password_change"), typed)

    operator.refresh_from_db()
    assert operator.check_password(new)
    assert client.get(reverse("account")).status_code == 200


def test_a_short_password_is_refused_beside_its_field(client: Client, operator: User) -> None:
    typed = {"old_password": populate.PASSWORD, "new_password1": "short", "new_password2": "short"}

    answer = client.post(reverse("password_change"), typed)

    assert (answer.status_code, list(answer.context["password"].errors)) == (422, ["new_password2"])


def test_logging_in_leads_back_to_the_page_that_was_wanted(client: Client, db: None) -> None:
    populate.user(Role.VIEWER, "vera")
    target = reverse("host_list")

    answer = client.post(f"{reverse('login')}?next={target}", {"username": "vera", "password": populate.PASSWORD})

    assert (answer.status_code, answer.headers["Location"]) == (302, target)


def test_a_wrong_password_says_so_and_keeps_the_name(client: Client, db: None) -> None:
    answer = client.post(reverse("login"), {"username": "vera", "password": "wrong"})

    assert b'role="alert"' in answer.content and b'value="vera"' in answer.content


def test_every_page_forbids_inline_scripts(client: Client, operator: User) -> None:
    policy = client.get(reverse("account")).headers["Content-Security-Policy"]

    assert "script-src 'self'" in policy and "script-src 'self' 'unsafe" not in policy


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PlanError("name", "'x' is taken", hint="choose another"), "'x' is taken. Choose another."),
        (PlanError("settings.postgresql.jit", "is not possible"), "settings.postgresql.jit: is not possible."),
        (HostError("bench-01", "it does not answer"), "bench-01: it does not answer."),
    ],
)
def test_a_message_names_hosts_and_settings_but_no_field_of_a_form(error: ProvingError, sentence: str) -> None:
    assert spoken(error) == sentence
