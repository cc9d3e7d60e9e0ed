"""What a stranger can tell about passkeys, how often they may try, and malformed responses."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from apps.accounts.attempts import FAILED_LOGINS, PASSKEY_SIGN_INS
from apps.accounts.models import Passkey, User
from tests.apps.accounts.second_factor.authenticator import Authenticator
from tests.apps.accounts.second_factor.conftest import add_passkey, enter_password, is_logged_in, options


def test_a_stranger_reads_the_same_for_every_kind_of_refusal(device: Authenticator, olga: User, ada: User) -> None:
    """An unknown passkey, a removed one, a wrong signature, a deactivated user: one response, also in its length."""

    def page(change: Any, known: Authenticator) -> tuple[int, str]:
        client, attempt = Client(), known.copy()
        asked = options(client)
        change(attempt)
        response = client.post(reverse("passkey_sign_in"), {"passkey": attempt.get(asked)})
        return response.status_code, response["Location"] + client.get(response["Location"]).content.decode()

    def without_tokens(answer: tuple[int, str]) -> tuple[int, str]:
        return answer[0], re.sub(r'value="[A-Za-z0-9]{64}"', "", answer[1])

    deactivated = Authenticator()
    add_passkey(enter_password(ada), deactivated)
    User.objects.filter(pk=ada.pk).update(is_active=False)

    def forge(attempt: Authenticator) -> None:
        attempt.key = Authenticator().key

    answers = {
        without_tokens(page(lambda attempt: None, Authenticator(user_handle=b"x" * 32))),
        without_tokens(page(lambda attempt: None, deactivated)),
        without_tokens(page(forge, device)),
    }

    assert len(answers) == 1


def test_the_options_say_nothing_about_users(device: Authenticator) -> None:
    """They are the same whether any user has a passkey or none, but for the challenge."""
    first = options(Client())["publicKey"]
    Passkey.objects.all().delete()
    second = options(Client())["publicKey"]

    assert first.pop("challenge") != second.pop("challenge")
    assert first == second and "allowCredentials" not in first


def test_the_second_step_says_nothing_before_the_password_is_right(device: Authenticator, olga: User) -> None:
    client = Client()
    client.post(reverse("login"), {"username": "olga", "password": "wrong"})

    answer = client.post(reverse("passkey_second_step_options"))

    assert answer.status_code == 422 and "publicKey" not in answer.json()


def test_an_address_that_fails_too_often_is_refused(device: Authenticator) -> None:
    client = Client()
    for _ in range(FAILED_LOGINS.most):
        client.post(reverse("passkey_sign_in"), {"passkey": "{}"})

    assert client.post(reverse("passkey_sign_in"), {"passkey": "{}"}).status_code == 429
    limited = client.post(reverse("passkey_sign_in_options"))
    assert limited.status_code == 429 and "Try again in" in limited.json()["message"]


@pytest.mark.thorough
def test_an_address_gets_so_many_challenges(db: None) -> None:
    client = Client()

    codes = [client.post(reverse("passkey_sign_in_options")).status_code for _ in range(PASSKEY_SIGN_INS.most + 1)]

    assert codes == [200] * PASSKEY_SIGN_INS.most + [429]


@pytest.mark.thorough
@pytest.mark.django_db
@examples(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sent=st.one_of(
        st.text(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=40),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
        ).map(json.dumps),
        st.fixed_dictionaries(
            {
                "id": st.just("AAAA"),
                "rawId": st.just("AAAA"),
                "type": st.sampled_from(["public-key", "x", 1]),
                "response": st.dictionaries(
                    st.sampled_from(
                        ["clientDataJSON", "authenticatorData", "signature", "userHandle", "attestationObject"]
                    ),
                    st.sampled_from(["", "AAAA", "e30", "!!!", 1, None, "o2NmbXRkbm9uZQ"]),
                ),
            }
        ).map(json.dumps),
    )
)
def test_malformed_responses_are_refused_and_never_an_error_of_the_server(sent: str) -> None:
    cache.clear()
    client = Client(raise_request_exception=True)
    options(client)

    response = client.post(reverse("passkey_sign_in"), {"passkey": sent})

    assert response.status_code == (400 if "\0" in sent else 302)
    assert not is_logged_in(client)
