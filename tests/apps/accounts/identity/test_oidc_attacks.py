"""The callback of a sign-in refuses responses that the provider did not send for this browser and this attempt."""

from __future__ import annotations

import base64
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from joserfc import jwt
from joserfc.jwk import RSAKey

from apps.accounts.models import AuditEntry, ProviderAccount, Role, Session, User
from tests.rows import populate
from tests.servers.provider import SECRET, Forge, Provider, signed, signed_with_hmac

pytestmark = pytest.mark.django_db
ANOTHER_KEY = RSAKey.generate_key(2048)


@pytest.fixture
def provider(provider: Provider) -> Provider:
    provider.user("grace")
    return provider


def none(claims: dict[str, Any], key: RSAKey) -> str:
    """Unsigned, as RFC 7519 has it."""
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{header}.{signed(claims, key).split('.')[1]}."


def hmac_of_the_secret(claims: dict[str, Any], key: RSAKey) -> str:
    return signed_with_hmac(claims, SECRET.encode())


def hmac_of_the_public_key(claims: dict[str, Any], key: RSAKey) -> str:
    return signed_with_hmac(claims, key.as_pem(private=False), str(key.kid))


def another_key(claims: dict[str, Any], key: RSAKey) -> str:
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, ANOTHER_KEY)


def key_in_the_header(claims: dict[str, Any], key: RSAKey) -> str:
    header = {"alg": "RS256", "jwk": ANOTHER_KEY.as_dict(private=False)}
    return jwt.encode(header, claims, ANOTHER_KEY)


def changed(**claims: Any) -> Forge:
    """Signed by the provider, with other claims; None removes one."""
    return lambda known, key: signed({k: v for k, v in {**known, **claims}.items() if v is not None}, key)


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(none, id="alg-none"),
        pytest.param(hmac_of_the_secret, id="hmac-of-the-client-secret"),
        pytest.param(hmac_of_the_public_key, id="hmac-of-the-public-key"),
        pytest.param(another_key, id="another-key"),
        pytest.param(key_in_the_header, id="key-in-the-header"),
        pytest.param(lambda claims, key: "a.b.c", id="no-token"),
        pytest.param(changed(nonce="another"), id="wrong-nonce"),
        pytest.param(changed(nonce=None), id="no-nonce"),
        pytest.param(changed(nonce=None, nonce_supported=False), id="nonce-not-supported"),
        pytest.param(changed(aud="another-client"), id="wrong-audience"),
        pytest.param(changed(aud=["another-client"], azp="proving-ground"), id="wrong-audience-for-us"),
        pytest.param(changed(aud=["proving-ground", "x"], azp="another-client"), id="for-another-client"),
        pytest.param(changed(aud=None), id="no-audience"),
        pytest.param(changed(iss="http://localhost:1"), id="another-issuer"),
        pytest.param(changed(iss=None), id="no-issuer"),
        pytest.param(changed(exp=int(time.time()) - 300), id="expired"),
        pytest.param(changed(exp=None), id="never-expires"),
        pytest.param(changed(iat=int(time.time()) + 3600), id="of-the-future"),
        pytest.param(changed(sub="ada"), id="userinfo-of-another-account"),
        pytest.param(changed(sub=None), id="no-account"),
        pytest.param(changed(at_hash="AAAAAAAAAAAAAAAAAAAAAA"), id="of-another-access-token"),
    ],
)
def test_a_forged_id_token_is_refused(provider: Provider, client: Client, forge: Forge) -> None:
    provider.forge = forge

    answer = provider.sign_in(client, "grace")

    assert answer.status_code in (403, 502), answer.content.decode()
    assert not User.objects.exists() and not Session.objects.filter(user__isnull=False).exists()
    assert AuditEntry.objects.get().action == "login.refused"
    assert client.get("/").status_code == 302


def test_the_same_token_with_its_own_claims_signs_in(provider: Provider, client: Client) -> None:
    """Else the refusals above would prove nothing."""
    provider.forge = changed()

    assert provider.sign_in(client, "grace").status_code == 302
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("state", ["", "guessed"])
def test_an_answer_with_another_state_is_refused(provider: Provider, client: Client, state: str) -> None:
    back = provider.answer(client.get(reverse("oidc_start"))["Location"], "grace")
    (code,) = parse_qs(urlsplit(back).query)["code"]

    answer = client.get(reverse("oidc_callback"), {"code": code, "state": state})

    assert answer.status_code == 403
    assert "does not belong to a sign-in that this browser started" in answer.content.decode()


def test_the_answer_to_one_browser_does_not_sign_in_another(provider: Provider, client: Client) -> None:
    """Else an attacker could have a victim work in the attacker's account."""
    back = provider.answer(Client().get(reverse("oidc_start"))["Location"], "grace")

    assert client.get(back).status_code == 403
    assert client.get("/").status_code == 302


def test_an_answer_works_once(provider: Provider, client: Client) -> None:
    back = provider.answer(client.get(reverse("oidc_start"))["Location"], "grace")
    assert client.get(back).status_code == 302
    client.post(reverse("logout"))

    assert client.get(back).status_code == 403


def test_a_code_without_the_verifier_of_its_browser_is_refused(provider: Provider, client: Client) -> None:
    back = provider.answer(Client().get(reverse("oidc_start"))["Location"], "grace")
    (stolen,) = parse_qs(urlsplit(back).query)["code"]
    mine = parse_qs(urlsplit(client.get(reverse("oidc_start"))["Location"]).query)

    answer = client.get(reverse("oidc_callback"), {"code": stolen, "state": mine["state"][0]})

    assert answer.status_code == 403 and "invalid_grant" in answer.content.decode()


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example/",
        "javascript:alert(1)",
        "http:evil.example",
        "http://testserver@evil.example/",
        " //evil.example/",
    ],
)
def test_next_leads_to_this_server_only(provider: Provider, client: Client, address: str) -> None:
    assert provider.sign_in(client, "grace", next=address)["Location"] == "/"


def test_metadata_that_name_another_issuer_are_refused(provider: Provider, client: Client, settings: Any) -> None:
    settings.OIDC_CLIENT_ID = "a client whose metadata are not known yet"
    provider.issuer = "https://evil.example"

    answer = client.get(reverse("oidc_start"))

    assert answer.status_code == 502 and "another issuer" in answer.content.decode()


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_unverified_address_that_equals_an_admins_gives_nothing(
    provider: Provider, client: Client, settings: Any, admin: User, verified: Any
) -> None:
    settings.OIDC_LINK_BY_EMAIL = True
    User.objects.update(email="ada@example.org")
    provider.user("mallory", email="ada@example.org", email_verified=verified)

    provider.sign_in(client, "mallory")

    mallory = User.objects.get(username="mallory")
    assert (mallory.role, mallory.email) == (Role.VIEWER, "")
    assert ProviderAccount.objects.get().user == mallory
    admin.refresh_from_db()
    assert admin.check_password(populate.PASSWORD)


@pytest.mark.parametrize("name", ["ada", "Ada", "ADA"])
def test_a_user_name_that_is_taken_gives_nothing(provider: Provider, client: Client, admin: User, name: str) -> None:
    provider.user("mallory", preferred_username=name)

    answer = provider.sign_in(client, "mallory")

    assert answer.status_code == 403 and "is taken" in answer.content.decode()
    assert not ProviderAccount.objects.exists()


@pytest.mark.thorough
def test_starts_and_failures_of_one_address_are_limited(provider: Provider, client: Client) -> None:
    starts = [client.get(reverse("oidc_start")).status_code for _ in range(61)]
    failures = [client.get(reverse("oidc_callback"), {"state": "x"}).status_code for _ in range(31)]

    assert (starts[59], starts[60]) == (302, 429)
    assert (failures[29], failures[30]) == (403, 429)
    assert AuditEntry.objects.filter(action="login.refused").count() == 30


def test_stored_sessions_contain_no_plain_token_of_the_provider(provider: Provider, client: Client) -> None:
    provider.sign_in(client, "grace")

    session = Session.objects.select_related("provider").get(user__isnull=False)
    stored = f"{session.get_decoded()} {session.provider.refresh_encrypted} {session.provider.id_token_encrypted}"

    assert session.provider.refresh_encrypted.startswith("gAAAA")
    assert ".eyJ" not in stored and "nonce" not in stored and "code_verifier" not in stored
