"""Logging in, tokens and passwords."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import ApiToken, Role, Team, User
from apps.accounts.tokens.lifecycle import issue_token
from apps.web.pages import spoken
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
def test_a_token_beyond_the_limit_is_refused_at_its_field(
    client: Client, operator: User, field: str, value: str
) -> None:
    answer = client.post(reverse("token_add"), {"name": "x", "role": "viewer", "days": "30"} | {field: value})

    assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])
    assert not ApiToken.objects.exists()


def test_the_page_creates_a_limited_token_and_shows_its_limits_and_last_use(client: Client, operator: User) -> None:
    team = Team.objects.create(name="storage")
    team.memberships.create(user=operator, role=Role.OPERATOR)
    typed = {"name": "nightly", "role": "viewer", "days": "30", "scopes": ["campaigns"], "team": team.pk}

    client.post(reverse("token_add"), typed | {"networks": "10.2.0.0/16, 192.0.2.7"})
    ApiToken.objects.update(last_used_at=timezone.now(), last_used_from="192.0.2.7")

    text = client.get(reverse("account")).content.decode()
    assert ApiToken.objects.get().networks == ["10.2.0.0/16", "192.0.2.7/32"]
    assert "viewer: reading, campaigns" in text
    assert "only in team storage" in text
    assert "from 192.0.2.7<" in text


def test_a_wrong_network_is_refused_beside_its_field(client: Client, operator: User) -> None:
    answer = client.post(reverse("token_add"), {"name": "x", "role": "viewer", "days": "30", "networks": "office"})

    assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["networks"])


def test_the_page_rotates_a_token_and_shows_the_new_value_once(client: Client, operator: User) -> None:
    token, old = issue_token(operator, "mine", Role.VIEWER)

    answer = client.post(reverse("token_rotate", args=[token.pk]), {"overlap_hours": "48"})

    token.refresh_from_db()
    assert answer.context["secret"] != old
    assert (token.digest, token.old_digest) == (ApiToken.hash(answer.context["secret"]), ApiToken.hash(old))
    assert "old value" in answer.content.decode()


def test_an_overlap_that_is_not_accepted_is_named(client: Client, operator: User) -> None:
    token, _ = issue_token(operator, "mine", Role.VIEWER)

    answer = client.post(reverse("token_rotate", args=[token.pk]), {"overlap_hours": "500"}, follow=True)

    assert "less than or equal to 168" in answer.content.decode()
    assert ApiToken.objects.get().rotated_at is None


def test_only_one_s_own_tokens_are_revoked_here(client: Client, operator: User) -> None:
    mine, _ = issue_token(operator, "mine", Role.VIEWER)
    other, _ = issue_token(populate.user(Role.VIEWER), "other", Role.VIEWER)

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
