"""Rotation: a new secret, and an old secret that works for a chosen overlap."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import ApiToken, AuditEntry, IdempotentRequest, Role, User
from tests.rows.factories import browser, make_user, script

TOKENS, ME = "/api/v1/tokens/", "/api/v1/me/"


def with_secret(secret: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def rotate(client: APIClient, token: ApiToken, **body: Any) -> Any:
    return client.post(f"{TOKENS}{token.pk}/rotate/", body)


def test_both_values_work_until_the_overlap_ends(operator: User) -> None:
    old = script(operator)
    token = ApiToken.objects.get()

    answer = rotate(browser(operator), token, overlap_hours=2)
    new = with_secret(answer.json()["secret"])
    during = [client.get(ME).status_code for client in (old, new)]
    ApiToken.objects.update(old_works_until=timezone.now() - timedelta(seconds=1))
    after = [client.get(ME) for client in (old, new)]

    assert during == [200, 200]
    assert [each.status_code for each in after] == [401, 200]
    assert "was rotated, and its old value ended on" in after[0].json()["title"]


def test_an_overlap_of_zero_ends_the_old_value_at_once(operator: User) -> None:
    old = script(operator)

    rotate(browser(operator), ApiToken.objects.get(), overlap_hours=0)

    assert old.get(ME).status_code == 401


def test_a_second_rotation_ends_the_first_value(operator: User) -> None:
    first = script(operator)
    token = ApiToken.objects.get()

    second = with_secret(rotate(browser(operator), token).json()["secret"])
    rotate(browser(operator), token)

    assert [client.get(ME).status_code for client in (first, second)] == [401, 200]


def test_rotation_keeps_limits_and_expiry_unless_days_are_set(operator: User) -> None:
    script(operator, scopes=["campaigns"], networks=["127.0.0.0/8"], days=5)
    token = ApiToken.objects.get()

    same = rotate(browser(operator), token).json()
    longer = rotate(browser(operator), token, days=30).json()

    assert (same["scopes"], same["networks"]) == (["campaigns"], ["127.0.0.0/8"])
    assert same["expires_at"] == token.expires_at.isoformat().replace("+00:00", "Z")
    assert longer["expires_at"][:10] == f"{timezone.now() + timedelta(days=30):%F}"


@pytest.mark.parametrize("scopes", [[], ["read"]])
def test_a_token_rotates_itself_and_no_other(operator: User, scopes: list[str]) -> None:
    client = script(operator, scopes=scopes)
    own = ApiToken.objects.get()
    script(operator, Role.VIEWER)
    other = ApiToken.objects.exclude(pk=own.pk).get()

    itself, refused = rotate(client, own), rotate(client, other)

    assert itself.status_code == 200
    assert with_secret(itself.json()["secret"]).get(ME).status_code == 200
    assert refused.status_code == 403
    assert "a token rotates only itself" in refused.json()["title"]


def test_the_old_value_cannot_rotate_the_token_again(operator: User) -> None:
    old = script(operator)
    token = ApiToken.objects.get()
    rotate(browser(operator), token)

    answer = rotate(old, token)

    assert answer.status_code == 403
    assert "old value of a rotated token" in answer.json()["title"]


def test_the_old_value_issues_no_token_that_outlasts_it(operator: User) -> None:
    """Otherwise a leaked secret would outlive the rotation."""
    old = script(operator, days=9)
    rotate(browser(operator), ApiToken.objects.get(), overlap_hours=48)

    short, long = (old.post(TOKENS, {"name": "heir", "days": days}) for days in (1, 3))

    assert short.status_code == 201
    assert (long.status_code, long.json()["field"]) == (400, "days")


def test_an_overlap_does_not_prolong_the_token(operator: User) -> None:
    old = script(operator, days=2)
    rotate(browser(operator), ApiToken.objects.get(), overlap_hours=168)

    answer = old.post(TOKENS, {"name": "heir", "days": 3})

    assert (answer.status_code, answer.json()["field"]) == (400, "days")


def test_a_token_does_not_prolong_itself(operator: User) -> None:
    client = script(operator, days=2)

    answer = rotate(client, ApiToken.objects.get(), days=3)

    assert (answer.status_code, answer.json()["field"]) == (400, "days")


def test_revoking_ends_both_values(operator: User) -> None:
    old = script(operator)
    token = ApiToken.objects.get()
    new = with_secret(rotate(browser(operator), token).json()["secret"])

    browser(operator).delete(f"{TOKENS}{token.pk}/")

    assert [client.get(ME).status_code for client in (old, new)] == [401, 401]


def test_an_admin_cannot_rotate_the_token_of_another_user(operator: User) -> None:
    script(operator)

    assert rotate(browser(make_user(Role.ADMIN)), ApiToken.objects.get()).status_code == 404


def test_an_expired_token_is_rotated_only_with_a_new_validity(operator: User) -> None:
    script(operator)
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    token = ApiToken.objects.get()

    refused, renewed = rotate(browser(operator), token), rotate(browser(operator), token, days=7)

    assert (refused.status_code, refused.json()["field"]) == (400, "days")
    assert renewed.status_code == 200


def test_an_overlap_longer_than_a_week_is_refused(operator: User) -> None:
    script(operator)

    answer = rotate(browser(operator), ApiToken.objects.get(), overlap_hours=169)

    assert (answer.status_code, answer.json()["field"]) == (400, "overlap_hours")


def test_a_repeated_request_does_not_show_the_secret_again(operator: User) -> None:
    script(operator)
    url, key = f"{TOKENS}{ApiToken.objects.get().pk}/rotate/", {"HTTP_IDEMPOTENCY_KEY": "k"}
    client = browser(operator)

    first, again = client.post(url, {}, **key), client.post(url, {}, **key)

    assert first.json()["secret"] and not again.json().get("secret")
    assert first.json()["secret"].encode() not in bytes(IdempotentRequest.objects.get().body)


def test_the_audit_log_has_the_rotation_without_a_secret(operator: User) -> None:
    script(operator)

    secret = rotate(browser(operator), ApiToken.objects.get(), overlap_hours=2).json()["secret"]

    entry = AuditEntry.objects.get(action="token.rotate")
    assert (entry.actor, entry.after["by_token"]) == (operator, False)
    assert secret not in str(entry.after)
