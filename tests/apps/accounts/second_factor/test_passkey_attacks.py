"""What attackers try with passkeys: replays, other users, other servers, clones."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Passkey, ProviderAccount, User
from apps.accounts.second_factor import ceremony
from tests.apps.accounts.second_factor.authenticator import PRESENT, VERIFIED, Authenticator
from tests.apps.accounts.second_factor.conftest import add_passkey, enter_password, is_logged_in, options, sign_in
from tests.rows import populate

MESSAGE = "this passkey is not accepted. Try again, or log in with your password."


def send(client: Client, response: str) -> Any:
    return client.post(reverse("passkey_sign_in"), {"passkey": response}, follow=True)


def refused(client: Client, response: str) -> str:
    """The reason in the audit log for a sign-in that must be refused, or "" if the log has none."""
    page = send(client, response)
    assert MESSAGE in page.content.decode() and not is_logged_in(client)
    entry = AuditEntry.objects.filter(action="login.refused").order_by("-pk").first()
    return entry.after["reason"] if entry else ""


def test_a_replayed_response_is_refused_in_the_same_session_and_in_another(device: Authenticator) -> None:
    client = Client()
    response = device.get(options(client))
    send(client, response)
    assert is_logged_in(client)
    client.post(reverse("logout"))

    assert "no challenge" in refused(client, response)
    fresh = Client()
    options(fresh)
    assert "Wrong challenge" in refused(fresh, response)


def test_a_challenge_of_another_session_is_refused(device: Authenticator) -> None:
    thief, victim = Client(), Client()
    options(thief)

    assert "Wrong challenge" in refused(thief, device.get(options(victim)))


def test_two_responses_to_one_challenge_that_arrive_together_log_in_once(
    device: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both requests read the session before the first one removes the challenge from it."""
    client = Client()
    asked = options(client)
    saved = dict(client.session[ceremony.CHALLENGE])
    first, second = device.get(asked), device.get(asked)
    send(client, first)
    assert is_logged_in(client)

    late = Client()
    options(late)
    session = late.session
    session[ceremony.CHALLENGE] = saved
    session.save()

    assert "used before" in refused(late, second)


def test_a_wrong_challenge_is_refused(device: Authenticator) -> None:
    client = Client()
    asked = options(client)
    asked["publicKey"]["challenge"] = "A" * 43

    assert "Wrong challenge" in refused(client, device.get(asked))


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example.net",
        "https://sub.proving.example.org",
        "http://proving.example.org",
        "https://proving.example.org:8443",
        "https://proving.example.org.evil.example.net",
    ],
)
def test_a_response_for_another_origin_is_refused(device: Authenticator, origin: str) -> None:
    client = Client()

    assert "Invalid origin" in refused(client, device.get(options(client), origin=origin))


def test_a_response_for_another_server_is_refused(device: Authenticator) -> None:
    client = Client()
    asked = options(client)
    asked["publicKey"]["rpId"] = "example.org"

    assert "RP ID" in refused(client, device.get(asked))


def test_a_response_from_a_frame_of_another_origin_is_refused(device: Authenticator) -> None:
    client = Client()

    assert "frame" in refused(client, device.get(options(client), crossOrigin=True))


def test_the_response_of_a_creation_is_no_sign_in(device: Authenticator) -> None:
    client = Client()

    assert "type" in refused(client, device.get(options(client), type="webauthn.create"))


@pytest.mark.parametrize("flags", [PRESENT, VERIFIED, 0])
def test_a_response_without_presence_or_verification_of_the_user_is_refused(device: Authenticator, flags: int) -> None:
    client = Client()
    device.flags = flags

    assert "flag" in refused(client, device.get(options(client))).lower()


def test_a_signature_by_another_key_is_refused(device: Authenticator) -> None:
    client, forged = Client(), device.copy()
    forged.key = Authenticator().key

    assert "signature" in refused(client, forged.get(options(client))).lower()


def test_a_challenge_expires(device: Authenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    response = device.get(options(client))
    session = client.session
    session[ceremony.CHALLENGE] = session[ceremony.CHALLENGE] | {"until": time.time() - 1}
    session.save()

    assert "expired" in refused(client, response)


def test_a_session_that_ended_answers_no_challenge(device: Authenticator) -> None:
    client = Client()
    response = device.get(options(client))
    client.session.flush()

    assert "no challenge" in refused(client, response)


def test_a_challenge_is_valid_for_one_purpose(device: Authenticator, olga: User) -> None:
    """A response that somebody got for a login must not confirm a change, and the other way round."""
    victim = Client()
    sign_in(victim, device)
    for_sign_in = device.get(options(victim))
    address = reverse("passkey_remove", args=[Passkey.objects.get().pk])
    assert victim.post(address, {"passkey": for_sign_in}).status_code == 422

    step = enter_password(olga)
    for_sign_in = device.get(options(step))
    step.post(reverse("second_step"), {"passkey": for_sign_in})

    assert not is_logged_in(step) and Passkey.objects.exists()


def test_the_passkey_of_another_user_is_no_second_step(device: Authenticator, ada: User) -> None:
    own = Authenticator()
    add_passkey(enter_password(ada), own)
    client = enter_password(ada)
    asked = client.post(reverse("passkey_second_step_options")).json()
    assert [each["id"] for each in asked["publicKey"]["allowCredentials"]] == [
        Passkey.objects.get(user=ada).credential_id
    ]

    client.post(reverse("second_step"), {"passkey": device.get(asked)})

    assert not is_logged_in(client)
    assert "it was sent for ada" in AuditEntry.objects.filter(action="login.refused").latest("pk").after["reason"]


def test_the_passkey_of_another_user_confirms_nothing(device: Authenticator, ada: User) -> None:
    client = enter_password(ada)
    asked = client.post(reverse("passkey_confirmation_options")).json()

    answer = client.post(reverse("passkey_new"), {"passkey": device.get(asked)})

    assert answer.status_code == 422 and MESSAGE in answer.content.decode()


def test_a_user_handle_of_another_user_is_refused(device: Authenticator, ada: User) -> None:
    other, client = Authenticator(), Client()
    add_passkey(enter_password(ada), other)
    device.user_handle = other.user_handle

    assert "another user" in refused(client, device.get(options(client)))


def test_a_sign_in_without_a_user_handle_is_refused(device: Authenticator) -> None:
    client = Client()
    device.user_handle = None

    assert "names no user" in refused(client, device.get(options(client)))


def test_a_deactivated_user_does_not_sign_in(device: Authenticator, olga: User) -> None:
    client = Client()
    User.objects.filter(pk=olga.pk).update(is_active=False)

    assert "deactivated" in refused(client, device.get(options(client)))


def test_a_user_who_moved_to_the_provider_does_not_sign_in(device: Authenticator, olga: User, settings: Any) -> None:
    client = Client()
    settings.OIDC_ISSUER = "https://id.example.org"
    ProviderAccount.objects.create(user=olga, issuer=settings.OIDC_ISSUER, subject="1")

    assert "provider" in refused(client, device.get(options(client)))


def test_a_removed_passkey_does_not_sign_in(device: Authenticator) -> None:
    client = Client()
    Passkey.objects.all().delete()

    assert refused(client, device.get(options(client))) == ""


def test_a_cloned_authenticator_is_noticed_and_neither_copy_works_any_more(device: Authenticator, olga: User) -> None:
    clone = device.copy()
    assert sign_in(Client(), device)["Location"] == "/"
    assert sign_in(Client(), device)["Location"] == "/"
    client = Client()

    assert "counter did not increase" in refused(client, clone.get(options(client)))

    entry = AuditEntry.objects.get(action="passkey.block")
    assert (entry.actor, entry.target, entry.after["name"]) == (None, "olga", "laptop")
    assert "blocked" in refused(client, device.get(options(client)))
    step = enter_password(olga)
    assert not is_logged_in(step), "the password alone must not replace a blocked passkey"


def test_an_authenticator_without_a_counter_signs_in_again_and_again(olga: User) -> None:
    synced = Authenticator(counts=False)
    add_passkey(enter_password(olga), synced)

    assert [sign_in(Client(), synced)["Location"] for _ in range(3)] == ["/"] * 3


def test_a_counter_that_returns_to_zero_is_a_clone(device: Authenticator) -> None:
    client = Client()
    sign_in(Client(), device)
    device.counter, device.counts = 0, False

    assert "counter" in refused(client, device.get(options(client)))


def test_one_passkey_belongs_to_one_user(device: Authenticator, ada: User) -> None:
    """Somebody who knows the id of a passkey must not register it as their own."""
    answer = add_passkey(enter_password(ada), device, "stolen")

    assert answer.status_code == 422 and "exists already" in answer.content.decode()
    assert not ada.passkeys.exists()


def test_a_registration_is_not_accepted_twice(olga: User) -> None:
    client, device = enter_password(olga), Authenticator()
    client.post(reverse("passkey_new"), {"password": populate.PASSWORD})
    response = device.create(client.post(reverse("passkey_creation"), {"name": "a"}).json())
    client.post(reverse("passkey_add"), {"name": "a", "passkey": response})

    client.post(reverse("passkey_add"), {"name": "b", "passkey": response})

    assert [each.name for each in Passkey.objects.all()] == ["a"]


@pytest.mark.parametrize("change", [{"origin": "https://evil.example.net"}, {"type": "webauthn.get"}])
def test_a_registration_at_another_origin_is_refused(olga: User, change: dict[str, str]) -> None:
    client, device = enter_password(olga), Authenticator()
    client.post(reverse("passkey_new"), {"password": populate.PASSWORD})
    asked = client.post(reverse("passkey_creation"), {"name": "a"}).json()

    answer = client.post(reverse("passkey_add"), {"name": "a", "passkey": device.create(asked, **change)})

    assert answer.status_code == 422 and not Passkey.objects.exists()
