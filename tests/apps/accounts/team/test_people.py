"""Invitations, roles and deactivation of users; forgotten passwords."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from apps.accounts import tasks
from apps.accounts.models import AuditEntry, Role, Session, User
from apps.accounts.team import people
from apps.accounts.tokens.lifecycle import issue_token
from common.errors import PlanError
from tests.rows import populate

NEW = "a longer horse battery"
LINK = re.compile(r"http\S+(/password/\S+/\S+/)")


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    cache.clear()


@pytest.fixture
def ada(client: Client, db: None) -> User:
    user = populate.user(Role.ADMIN, "ada")
    client.force_login(user)
    return user


@pytest.fixture
def mails(settings: Any, mailoutbox: list[Any]) -> list[Any]:
    settings.EMAIL_HOST = "mail.example.org"
    return mailoutbox


def choose(path: str, password: str = NEW) -> Any:
    """Follow a link in another browser, and choose a password there."""
    browser = Client()
    form = browser.get(path, follow=True)
    at = form.redirect_chain[-1][0] if form.redirect_chain else path
    return browser.post(at, {"new_password1": password, "new_password2": password}, follow=True)


def test_an_invited_user_chooses_a_password_once_with_the_mailed_link(
    client: Client, ada: User, mails: list[Any]
) -> None:
    client.post(reverse("user_list"), {"username": "grace", "email": "grace@example.org", "role": "operator"})

    path = LINK.search(mails[0].body)[1]  # type: ignore[index]
    first, second = choose(path), choose(path, "another horse battery")

    grace = User.objects.get(username="grace")
    assert (mails[0].to, grace.role) == (["grace@example.org"], Role.OPERATOR)
    assert grace.check_password(NEW)
    assert b"Your password is set" in first.content and b"was already used" in second.content
    done = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert done == ["user.invite", "user.send_link", "password.set_by_link"]


def test_without_mail_the_admin_is_shown_the_link_once(client: Client, ada: User) -> None:
    page = client.post(reverse("user_list"), {"username": "grace", "email": "g@example.org", "role": "viewer"})

    assert b"this server sends no mail" in page.content
    choose(LINK.search(page.context["link"])[1])  # type: ignore[index]
    assert User.objects.get(username="grace").check_password(NEW)


def test_a_script_invites_as_well(client: Client, ada: User) -> None:
    body = {"username": "grace", "email": "g@example.org", "role": "tuner"}

    answer = client.post("/api/v1/users/", body, content_type="application/json").json()

    assert answer["role"] == "tuner" and "/password/" in answer["link"]


@pytest.mark.parametrize(
    ("field", "value"), [("username", "ada"), ("username", "no spaces"), ("email", "grace"), ("role", "boss")]
)
def test_a_wrong_invitation_is_refused_beside_its_field(client: Client, ada: User, field: str, value: str) -> None:
    typed = {"username": "grace", "email": "g@example.org", "role": "viewer"} | {field: value}

    answer = client.post(reverse("user_list"), typed)

    assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])
    assert User.objects.count() == 1


def test_a_short_password_is_refused(ada: User) -> None:
    answer = choose(LINK.search(people.link(ada))[1], "short")  # type: ignore[index]

    assert b"too short" in answer.content


def test_a_password_set_by_link_ends_every_session(client: Client, ada: User) -> None:
    choose(LINK.search(people.link(ada))[1])  # type: ignore[index]

    assert client.get(reverse("account")).status_code == 302


def test_a_forgotten_password_gets_the_same_response_for_every_name(ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(email="ada@example.org")

    pages = [
        Client().post(reverse("password_forgot"), {"email": email}, follow=True).content
        for email in ("ada@example.org", "nobody@example.org")
    ]

    token = re.compile(rb'name="csrfmiddlewaretoken" value="\w+"')
    assert token.sub(b"", pages[0]) == token.sub(b"", pages[1])


def test_a_forgotten_password_is_mailed_once_in_five_minutes(ada: User, mails: list[Any]) -> None:
    User.objects.filter(pk=ada.pk).update(email="ada@example.org")

    tasks.forgot("Ada@Example.org")
    tasks.forgot("ada@example.org")
    tasks.forgot("nobody@example.org")

    assert [mail.to for mail in mails] == [["ada@example.org"]]
    assert people.link(ada).rsplit("/", 2)[0].rsplit("/", 1)[0] in mails[0].body


def test_a_deactivated_user_and_their_scripts_are_logged_out(client: Client, ada: User) -> None:
    olga = populate.user(Role.OPERATOR, "olga")
    theirs = Client()
    theirs.force_login(olga)
    _, secret = issue_token(olga, "nightly", Role.VIEWER)

    client.post(reverse("user_change", args=[olga.pk]), {"active": "no"})

    assert theirs.get(reverse("account")).status_code == 302
    assert not Session.objects.filter(user=olga).exists()
    assert Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code == 401


@pytest.mark.parametrize("change", [{"role": Role.VIEWER}, {"is_active": False}])
def test_the_last_admin_stays_one(ada: User, change: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="ada is the only admin"):
        people.change(ada, by=ada, **change)

    populate.user(Role.ADMIN, "grace")
    people.change(ada, by=ada, **change)


def test_a_role_is_changed_and_written_down(client: Client, ada: User) -> None:
    olga = populate.user(Role.OPERATOR, "olga")

    client.post(reverse("user_change", args=[olga.pk]), {"role": "tuner"})
    client.patch(f"/api/v1/users/{olga.pk}/", {"role": "viewer"}, content_type="application/json")

    olga.refresh_from_db()
    changes = AuditEntry.objects.filter(action="user.change").order_by("id").values_list("before", "after")
    assert olga.role == "viewer"
    assert list(changes) == [({"role": "operator"}, {"role": "tuner"}), ({"role": "tuner"}, {"role": "viewer"})]
