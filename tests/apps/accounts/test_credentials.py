"""Credentials: stored as hashes, limited by the role, and revoked with the password."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from apps.accounts.models import ApiToken, AuditEntry, Credential, IdempotentRequest, Role, Session, TrustedJob, User
from apps.accounts.services import generate_password
from apps.accounts.team import people
from apps.accounts.tokens.lifecycle import issue_token
from apps.decisions.timeline.feed import renew_feed
from tests.rows import populate
from tests.rows.factories import browser, make_user, script

NEW = "another horse battery"


@pytest.fixture
def ada(db: None) -> User:
    return populate.user(Role.ADMIN, "ada")


def log_in(user: User) -> Client:
    client = Client()
    client.post(reverse("login"), {"username": user.username, "password": populate.PASSWORD})
    return client


def everything_of(user: User) -> dict[str, int]:
    kinds: list[Any] = Credential.__subclasses__()
    return {kind.__name__: kind.objects.filter(user=user).count() for kind in kinds}


def with_everything(user: User) -> Client:
    """Logged in here and elsewhere, with a token, a trusted CI job and a feed."""
    log_in(user)
    TrustedJob.objects.create(user=user, name="nightly", issuer="https://ci.example.org", claims={}, minutes=15)
    issue_token(user, "nightly CI", Role(user.role))
    renew_feed(by=user)
    return log_in(user)


def test_the_contents_of_the_session_table_do_not_open_a_session(ada: User) -> None:
    client = log_in(ada)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value

    held = list(Session.objects.values_list("session_key", flat=True))
    answers = []
    for key in held:
        thief = Client()
        thief.cookies[settings.SESSION_COOKIE_NAME] = key
        answers.append(thief.get(reverse("account")).status_code)

    assert client.get(reverse("account")).status_code == 200
    assert cookie not in held
    assert answers == [302] * len(held)


def test_an_empty_session_key_and_one_with_nul_belong_to_no_user(ada: User) -> None:
    for key in ("", "x", '"\\000"', "ä" * 40):
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = key
        assert client.get(reverse("account")).status_code == 302


def test_a_logout_deletes_the_session(ada: User) -> None:
    client = log_in(ada)

    client.post(reverse("logout"))

    assert not Session.objects.filter(user=ada).exists()


def test_another_password_ends_everything_but_this_session(ada: User) -> None:
    client = with_everything(ada)
    typed = {"old_password": populate.PASSWORD, "new_password1": NEW, "new_password2": NEW}

    client.post(reverse("password_change"), typed)

    assert everything_of(ada) == {"TrustedJob": 0, "ApiToken": 0, "Session": 1, "FeedToken": 0}
    assert client.get(reverse("account")).status_code == 200
    assert AuditEntry.objects.get(action="password.change").after == {"ended": 5}


def test_a_password_chosen_by_a_link_ends_every_session(ada: User) -> None:
    with_everything(ada)
    User.objects.filter(pk=ada.pk).update(last_login=ada.last_login)
    client, link = Client(), people.link(User.objects.get(pk=ada.pk)).removeprefix(settings.BASE_URL)

    form = client.get(link, follow=True)
    client.post(form.redirect_chain[-1][0], {"new_password1": NEW, "new_password2": NEW})

    assert everything_of(ada) == {"TrustedJob": 0, "ApiToken": 0, "Session": 0, "FeedToken": 0}


def test_a_password_from_the_shell_and_deactivation_end_every_session(ada: User) -> None:
    olga = make_user(Role.OPERATOR)
    with_everything(ada)
    issue_token(olga, "nightly CI", Role.OPERATOR)

    generate_password(ada)
    people.change(olga, by=ada, is_active=False)

    assert not ApiToken.objects.exists()
    assert not Session.objects.filter(user=ada).exists()


def test_a_token_revokes_none_that_may_do_more(ada: User) -> None:
    strong, _ = issue_token(ada, "deploy", Role.ADMIN)
    weak = script(ada, Role.VIEWER)

    refused = weak.delete(f"/api/v1/tokens/{strong.pk}/")
    itself = weak.delete(f"/api/v1/tokens/{ApiToken.objects.get(role=Role.VIEWER).pk}/")

    assert refused.status_code == 403
    assert "the current token has the role viewer" in refused.json()["title"]
    assert itself.status_code == 204
    assert ApiToken.objects.filter(pk=strong.pk).exists()


def test_a_token_ends_no_session_that_may_do_more(ada: User) -> None:
    client = log_in(ada)
    session = Session.objects.get(user=ada)
    url = reverse("api:session-detail", args=[session.public])

    refused = script(ada, Role.OPERATOR).delete(url)
    still = client.get(reverse("account")).status_code
    allowed = script(ada, Role.ADMIN).delete(url)

    assert (refused.status_code, still, allowed.status_code) == (403, 200, 204)


def test_the_answer_to_an_admin_is_not_repeated_to_a_lesser_token(ada: User) -> None:
    body, headers = {"name": "storage", "about": "arrays, nobody else is to know"}, {"Idempotency-Key": "one"}
    url = reverse("api:team-list")

    first = browser(ada).post(url, body, format="json", headers=headers)
    again = script(ada, Role.VIEWER).post(url, body, format="json", headers=headers)
    same = script(ada, Role.ADMIN).post(url, body, format="json", headers=headers)

    assert (first.status_code, again.status_code, same.status_code) == (201, 422, 201)
    assert b"arrays" not in again.content
    assert same.headers["Idempotent-Replayed"] == "true"
    assert IdempotentRequest.objects.count() == 1
