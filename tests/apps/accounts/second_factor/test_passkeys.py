"""Passkeys as second factor and as a login without the password, and how users add and remove them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Passkey, Session, User
from apps.accounts.second_factor import ceremony, factors, policy
from tests.apps.accounts.second_factor.authenticator import VERIFIED, Authenticator
from tests.apps.accounts.second_factor.conftest import App, add_passkey, enter_password, is_logged_in, log_in, sign_in
from tests.rows import populate
from tests.rows.factories import browser

BOTH = {"password": populate.PASSWORD}


def confirm_with(client: Client, device: Authenticator) -> dict[str, str]:
    """What a form has instead of password and code."""
    return {"passkey": device.get(client.post(reverse("passkey_confirmation_options")).json())}


def test_the_first_passkey_shows_recovery_codes_once_and_ends_other_sessions(olga: User) -> None:
    other, client = enter_password(olga), enter_password(olga)

    shown = add_passkey(client, Authenticator(), "laptop")

    assert len(shown.context["codes"].split()) == factors.CODES
    assert policy.enrolled(olga) and is_logged_in(client) and not is_logged_in(other)
    entry = AuditEntry.objects.get(action="passkey.add")
    assert (entry.actor, entry.after) == (olga, {"name": "laptop", "sessions_ended": 1})
    assert "laptop" in client.get(reverse("second_factor")).content.decode()


def test_a_passkey_logs_in_without_name_and_password(olga: User) -> None:
    device = Authenticator()
    add_passkey(enter_password(olga), device)

    client = Client()
    response = sign_in(client, device)

    assert response["Location"] == "/" and is_logged_in(client)
    entry = AuditEntry.objects.get(action="login.passkey")
    assert (entry.actor, entry.after["name"]) == (olga, "laptop")
    assert Passkey.objects.get().last_used_at is not None


def test_a_passkey_leads_to_the_page_that_needed_the_login_and_to_no_other_server(olga: User) -> None:
    device = Authenticator()
    add_passkey(enter_password(olga), device)

    assert sign_in(Client(), device, next="/hosts/")["Location"] == "/hosts/"
    assert sign_in(Client(), device, next="https://evil.example.net/")["Location"] == "/"


def test_the_password_alone_is_not_enough_with_a_passkey(olga: User) -> None:
    device = Authenticator()
    add_passkey(enter_password(olga), device)

    client = enter_password(olga)
    assert not is_logged_in(client)
    options = client.post(reverse("passkey_second_step_options")).json()
    client.post(reverse("second_step"), {"passkey": device.get(options)})

    assert is_logged_in(client)


def test_a_recovery_code_replaces_a_passkey_once(olga: User) -> None:
    codes = add_passkey(enter_password(olga), Authenticator()).context["codes"].split()
    first, second = enter_password(olga), enter_password(olga)

    first.post(reverse("second_step"), {"code": codes[0]})
    second.post(reverse("second_step"), {"code": codes[0]})

    assert is_logged_in(first) and not is_logged_in(second)
    assert AuditEntry.objects.get(action="login.recovery_code").after == {"left": factors.CODES - 1}


def test_a_further_passkey_keeps_the_recovery_codes(olga: User) -> None:
    client, first, second = enter_password(olga), Authenticator(), Authenticator()
    codes = add_passkey(client, first).context["codes"].split()

    response = add_passkey(client, second, "phone", confirm_with(client, first))

    assert response["Location"] == reverse("second_factor")
    assert factors.codes_left(olga) == len(codes)
    assert is_logged_in(client) and sign_in(Client(), second)["Location"] == "/"


def test_two_passkeys_of_a_user_have_different_names(olga: User) -> None:
    client, device = enter_password(olga), Authenticator()
    add_passkey(client, device)
    client.post(reverse("passkey_new"), confirm_with(client, device))

    refused = client.post(reverse("passkey_creation"), {"name": "laptop"})

    assert refused.status_code == 422
    assert refused.json()["message"] == "you have a passkey 'laptop' already. Choose another name."


def test_an_authenticator_is_told_which_passkeys_the_user_has(olga: User) -> None:
    client, device = enter_password(olga), Authenticator()
    add_passkey(client, device)
    client.post(reverse("passkey_new"), confirm_with(client, device))

    options = client.post(reverse("passkey_creation"), {"name": "phone"}).json()["publicKey"]

    assert [each["id"] for each in options["excludeCredentials"]] == [Passkey.objects.get().credential_id]
    assert options["authenticatorSelection"] == {
        "residentKey": "required", "requireResidentKey": True, "userVerification": "required"
    }  # fmt: skip
    assert "olga" not in options["user"]["id"] and options["rp"]["id"] == "proving.example.org"


@pytest.mark.parametrize("sent", [{}, {"password": "wrong"}, {"passkey": "{}"}])
def test_a_session_alone_adds_no_passkey(olga: User, sent: dict[str, str]) -> None:
    client = enter_password(olga)

    assert client.post(reverse("passkey_new"), sent).status_code == 422
    assert client.post(reverse("passkey_creation"), {"name": "thief"}).status_code == 422
    client.post(reverse("passkey_add"), {"name": "thief", "passkey": "{}"})

    assert not Passkey.objects.exists()


def test_with_an_app_the_password_alone_adds_no_passkey(app: App) -> None:
    client = log_in(app)

    assert client.post(reverse("passkey_new"), BOTH).status_code == 422
    response = add_passkey(client, Authenticator(), confirmation=BOTH | {"code": app.next_code()})

    assert response["Location"] == reverse("second_factor")
    assert factors.codes_left(app.user) == factors.CODES


def test_a_user_removes_a_passkey_and_other_sessions_end(olga: User) -> None:
    client, device = enter_password(olga), Authenticator()
    add_passkey(client, device)
    other = Client()
    sign_in(other, device)
    address = reverse("passkey_remove", args=[Passkey.objects.get().pk])

    assert client.post(address, BOTH).status_code == 422
    client.post(address, confirm_with(client, device))

    assert not Passkey.objects.exists() and factors.codes_left(olga) == 0
    assert is_logged_in(client) and not is_logged_in(other)
    assert AuditEntry.objects.get(action="passkey.remove").before == {"name": "laptop"}
    assert is_logged_in(enter_password(olga))


def test_nobody_removes_or_sees_the_passkey_of_another_user(olga: User, ada: User) -> None:
    add_passkey(enter_password(olga), Authenticator())
    address = reverse("passkey_remove", args=[Passkey.objects.get().pk])
    client = enter_password(ada)

    assert (client.get(address).status_code, client.post(address, BOTH).status_code) == (404, 404)
    assert Passkey.objects.exists()


def test_a_passkey_satisfies_a_role_that_needs_a_second_factor(olga: User, settings: Any) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset(["operator"])
    client, device = enter_password(olga), Authenticator()
    assert client.get("/hosts/")["Location"] == reverse("second_factor")

    add_passkey(client, device)
    fresh = Client()
    sign_in(fresh, device)

    assert is_logged_in(client) and is_logged_in(fresh)
    address = reverse("passkey_remove", args=[Passkey.objects.get().pk])
    refused = fresh.post(address, confirm_with(fresh, device), follow=True)
    assert "your role needs a second factor. Add another one first" in refused.content.decode()
    assert Passkey.objects.exists()


def test_the_app_can_go_if_a_passkey_stays_and_the_codes_stay_too(app: App, settings: Any) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset(["operator"])
    client, device = log_in(app), Authenticator()
    add_passkey(client, device, confirmation=BOTH | {"code": app.next_code()})

    client.post(reverse("second_factor_remove"), confirm_with(client, device))

    assert policy.app(app.user) is None and policy.enrolled(app.user)
    assert factors.codes_left(app.user) == factors.CODES and is_logged_in(client)


def test_an_admin_resets_passkeys_and_confirms_it_with_a_passkey(olga: User, ada: User) -> None:
    add_passkey(enter_password(olga), Authenticator())
    device, client = Authenticator(), enter_password(ada)
    add_passkey(client, device)
    address = reverse("user_second_factor", args=[olga.pk])

    assert client.post(address, BOTH).status_code == 422
    client.post(address, confirm_with(client, device))

    assert not policy.enrolled(olga) and policy.enrolled(ada)
    assert not Session.objects.filter(user=olga).exists() and factors.codes_left(olga) == 0
    assert AuditEntry.objects.get(action="factor.reset").after["passkeys"] == 1


def test_the_users_page_counts_a_passkey_as_second_factor(olga: User, ada: User) -> None:
    add_passkey(enter_password(olga), Authenticator())

    text = browser(ada).get(reverse("user_list")).content.decode()

    assert text.count("active, second factor") == 1 and text.count("Reset second factor of olga") == 1


def test_a_user_has_at_most_so_many_passkeys(olga: User, monkeypatch: Any) -> None:
    monkeypatch.setattr("apps.accounts.second_factor.passkeys.MOST", 1)
    client, device = enter_password(olga), Authenticator()
    add_passkey(client, device)
    client.post(reverse("passkey_new"), confirm_with(client, device))

    refused = client.post(reverse("passkey_creation"), {"name": "phone"})

    assert refused.json()["message"] == "you have 1 passkeys. Remove one that you no longer use."


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://192.0.2.7:8000", "Passkeys need a host name, and this server is http://192.0.2.7:8000."),
        ("https://[2001:db8::1]", "Passkeys need a host name"),
        ("http://proving.example.org", "Passkeys need HTTPS, and this server is http://proving.example.org."),
        ("https://proving.example.org", ""),
        ("http://localhost:8000", ""),
    ],
)
def test_the_page_says_why_a_server_can_have_no_passkeys(olga: User, settings: Any, address: str, reason: str) -> None:
    settings.BASE_URL = address
    client = enter_password(olga)

    text = client.get(reverse("second_factor")).content.decode()

    assert (ceremony.obstacle() == "") == (reason == "") and reason in text
    assert ("Add a passkey" in text) == (reason == "")
    assert ("Log in with a passkey" in Client().get(reverse("login")).content.decode()) == (reason == "")


def test_the_origin_has_no_default_port(settings: Any) -> None:
    settings.BASE_URL = "https://Proving.example.org:443"

    assert ceremony.origin() == "https://proving.example.org"


def test_a_passkey_works_behind_a_proxy_that_ends_tls(olga: User, settings: Any) -> None:
    """The server itself sees HTTP and an internal name; the browser reports the origin of PROVING_BASE_URL."""
    settings.ALLOWED_HOSTS = ["web"]
    device, client = Authenticator(), enter_password(olga, SERVER_NAME="web", SERVER_PORT="8000")

    add_passkey(client, device)
    fresh = Client(SERVER_NAME="web", SERVER_PORT="8000")

    assert sign_in(fresh, device)["Location"] == "/"


def test_a_passkey_that_did_not_verify_the_user_is_not_added(olga: User) -> None:
    refused = add_passkey(enter_password(olga), Authenticator(flags=Authenticator.flags & ~VERIFIED))

    assert refused.status_code == 422 and not Passkey.objects.exists()


def test_a_new_password_names_the_passkeys_that_still_work(olga: User) -> None:
    client = enter_password(olga)
    add_passkey(client, Authenticator(), "not mine")
    new = "a-new-password-of-olga"

    sent = {"old_password": populate.PASSWORD, "new_password1": new, "new_password2": new}
    text = client.post(reverse("password_change"), sent, follow=True).content.decode()

    assert "Your passkeys still work: not mine. Remove those that are not yours." in text


def test_a_user_of_the_provider_adds_no_passkey(olga: User, settings: Any) -> None:
    settings.OIDC_ISSUER, settings.BREAK_GLASS_ADMIN = "https://id.example.org", "ada"
    client = browser(olga)

    client.post(reverse("passkey_new"), BOTH)

    assert client.post(reverse("passkey_creation"), {"name": "x"}).status_code in (302, 422)
    assert not Passkey.objects.exists()
