"""Existing users link their account with the provider; which passwords work afterwards."""

from __future__ import annotations

import re
from typing import Any

import pyotp
import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts import services
from apps.accounts.identity import access
from apps.accounts.models import AuditEntry, Membership, ProviderAccount, Role, Team, User
from apps.accounts.second_factor import factors
from apps.accounts.team import people
from common.errors import PlanError
from tests.rows import populate
from tests.rows.factories import issue_token
from tests.servers.provider import Provider

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(db: None) -> User:
    user = populate.user(Role.OPERATOR, "olga")
    User.objects.filter(pk=user.pk).update(email="olga@example.org")
    return User.objects.get(pk=user.pk)


def log_in(name: str = "olga") -> tuple[Client, int]:
    """(a browser, the status of a login with the password): 302 is in, 200 the form again."""
    client = Client()
    sent = {"username": name, "password": populate.PASSWORD}
    return client, client.post(reverse("login"), sent).status_code


def start_link(client: Client, password: str = populate.PASSWORD, **second_factor: str) -> str:
    """The provider's address on the page that leads there; "" if the password was refused."""
    page = client.post(reverse("oidc_link"), {"password": password, **second_factor}).content.decode()
    match = re.search(r'content="0; url=([^"]+)"', page)
    return match[1].replace("&amp;", "&") if match else ""


def test_a_user_who_is_logged_in_links_with_the_password_and_signs_in_with_the_provider_from_then_on(
    provider: Provider, olga: User
) -> None:
    provider.user("o-4711", preferred_username="olga.k")
    client, _ = log_in()
    token = issue_token(olga, "nightly", Role.VIEWER)[1]

    answer = client.get(provider.answer(start_link(client), "o-4711"), follow=True)

    assert "Your password no longer works." in answer.content.decode()
    assert ProviderAccount.objects.get().user == olga
    assert log_in()[1] == 200
    assert provider.sign_in(Client(), "o-4711").status_code == 302
    assert User.objects.count() == 1
    link = AuditEntry.objects.get(action="login.link")
    assert (link.actor, link.after["how"]) == (olga, "by the user")
    assert Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_a_session_without_the_password_cannot_link(provider: Provider, olga: User) -> None:
    client, _ = log_in()

    assert start_link(client, "a guess of the password") == ""
    assert not ProviderAccount.objects.exists()


def test_an_enrolled_user_links_only_with_the_second_factor(provider: Provider, olga: User) -> None:
    """Otherwise the password would be enough to replace it with an attacker's account at the provider."""
    secret = factors.begin(olga)
    codes = factors.confirm(olga, pyotp.TOTP(secret).now(), session_key=None)
    client = Client()
    client.post(reverse("login"), {"username": "olga", "password": populate.PASSWORD})
    client.post(reverse("second_step"), {"code": codes[0]})

    assert start_link(client) == ""
    assert start_link(client, code="wrong") == ""
    assert start_link(client, code=codes[0]) == ""
    assert start_link(client, code=codes[1])


def test_a_link_that_another_user_began_is_not_finished_here(provider: Provider, olga: User, admin: User) -> None:
    """An attacker who makes a victim open the response gains nothing, because it belongs to the attacker's browser."""
    provider.user("mallory")
    attacker, _ = log_in()
    back = provider.answer(start_link(attacker), "mallory")
    victim, _ = log_in("ada")

    assert victim.get(back).status_code == 403
    attacker.post(reverse("logout"))
    assert attacker.get(back).status_code == 403
    assert not ProviderAccount.objects.exists()


def test_an_account_at_the_provider_is_linked_to_one_user(provider: Provider, olga: User) -> None:
    provider.user("grace")
    provider.sign_in(Client(), "grace")
    client, _ = log_in()

    answer = client.get(provider.answer(start_link(client), "grace"))

    assert answer.status_code == 403 and "linked to another user" in answer.content.decode()


def test_a_verified_address_links_if_the_admin_of_the_server_allows_it(
    provider: Provider, olga: User, settings: Any
) -> None:
    settings.OIDC_LINK_BY_EMAIL = True
    provider.user("o-4711", email="Olga@Example.org", email_verified=True)

    provider.sign_in(Client(), "o-4711")

    assert ProviderAccount.objects.get().user == olga
    assert AuditEntry.objects.get(action="login.link").after["how"] == "by mail address"


def test_a_verified_address_does_not_link_by_itself(provider: Provider, olga: User) -> None:
    provider.user("o-4711", email="olga@example.org", email_verified=True)

    answer = provider.sign_in(Client(), "o-4711")

    assert answer.status_code == 403 and "log in with your password and link it" in answer.content.decode()
    assert not ProviderAccount.objects.exists()


@pytest.mark.parametrize("who", ["an instance admin", "a team's admin", "the break-glass admin", "two users"])
def test_an_address_alone_links_no_privileged_account(provider: Provider, olga: User, settings: Any, who: str) -> None:
    settings.OIDC_LINK_BY_EMAIL = True
    if who == "an instance admin":
        User.objects.update(role=Role.ADMIN)
    elif who == "a team's admin":
        Membership.objects.create(team=Team.objects.create(name="Storage"), user=olga, role=Role.ADMIN)
    elif who == "two users":
        User.objects.create(username="olga-2", email="OLGA@example.org")
    else:
        settings.BREAK_GLASS_ADMIN = "olga"
    provider.user("o-4711", email="olga@example.org", email_verified=True)

    assert provider.sign_in(Client(), "o-4711").status_code == 403
    assert not ProviderAccount.objects.exists()


def test_an_invitation_link_cannot_set_a_password_twice(provider: Provider, olga: User, client: Client) -> None:
    provider.user("grace", email="grace@example.org", email_verified=True)
    provider.sign_in(Client(), "grace")
    grace = User.objects.get(username="grace")
    admin = populate.user(Role.ADMIN, "ada")
    client.force_login(admin)

    page = client.post(reverse("user_link", args=[grace.pk]), follow=True).content.decode()

    assert "grace signs in with Example Corp." in page and "/password/" not in page.partition("<main")[2]
    with pytest.raises(PlanError, match="a password does not work for grace"):
        people.send_link(grace)


def test_only_the_break_glass_admin_has_a_password_that_works(
    provider: Provider, olga: User, admin: User, settings: Any
) -> None:
    before, _ = log_in()
    settings.BREAK_GLASS_ADMIN = "ada"

    page = Client().get(reverse("login")).content.decode()

    assert log_in("olga")[1] == 200
    assert log_in("ada")[1] == 302
    assert before.get("/").status_code == 302, "a session that a password began ends"
    assert "Log in as the break-glass admin" in page and "Forgot your password" not in page
    refused = AuditEntry.objects.filter(action="login.refused").get()
    assert refused.target == "olga" and "passwords do not work for this user" in refused.after["reason"]


def test_a_refused_password_gets_the_response_of_a_wrong_one(provider: Provider, olga: User, settings: Any) -> None:
    settings.BREAK_GLASS_ADMIN = "ada"
    right = Client().post(reverse("login"), {"username": "olga", "password": populate.PASSWORD}).content.decode()
    wrong = Client().post(reverse("login"), {"username": "olga", "password": "wrong horse battery"}).content.decode()

    messages = [re.search(r'<p class="message error"[^>]*>(.*?)</p>', page) for page in (right, wrong)]

    assert messages[0] and messages[1] and messages[0][1] == messages[1][1]


def test_the_account_page_shows_how_one_signs_in(provider: Provider, olga: User, settings: Any) -> None:
    local, _ = log_in()
    provider.user("grace")
    linked = Client()
    provider.sign_in(linked, "grace")

    pages = [client.get(reverse("account")).content.decode() for client in (local, linked)]

    assert "Link account" in pages[0] and "Change password" in pages[0]
    assert "You have signed in with Example Corp since" in pages[1] and "Change password" not in pages[1]
    linked.force_login(populate.user(Role.ADMIN, "ada"))
    assert "active, by Example Corp" in linked.get(reverse("user_list")).content.decode()


def test_an_admin_undoes_a_link_which_ends_all_access_and_lets_a_password_be_set_again(
    provider: Provider, olga: User, client: Client
) -> None:
    provider.user("grace", email="grace@example.org", email_verified=True)
    linked = Client()
    provider.sign_in(linked, "grace")
    grace = User.objects.get(username="grace")
    client.force_login(populate.user(Role.ADMIN, "ada"))

    client.post(reverse("user_unlink", args=[grace.pk]))

    assert linked.get("/").status_code == 302
    assert not ProviderAccount.objects.exists()
    assert AuditEntry.objects.get(action="login.unlink").actor == User.objects.get(username="ada")
    people.check_password_works(User.objects.get(pk=grace.pk))


def test_an_unfinished_sign_in_does_not_shorten_a_session_that_a_password_begins(
    provider: Provider, olga: User, client: Client
) -> None:
    client.get(reverse("oidc_start"))

    client.post(reverse("login"), {"username": "olga", "password": populate.PASSWORD})

    assert client.session.get_expiry_age() > 86400


def test_the_shell_of_the_server_always_lets_an_admin_in_again(provider: Provider) -> None:
    provider.user("grace")
    provider.sign_in(Client(), "grace")

    services.generate_password(services.create_admin("grace", reset=True))

    assert access.password_works(User.objects.get(username="grace"))
