"""API tokens: permissions, expiry, and no more access than their owner."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import ApiToken, AuditEntry, Role, User
from tests.rows.factories import browser, make_user, script

TOKENS, ME, WORKLOADS = "/api/v1/tokens/", "/api/v1/me/", "/api/v1/workloads/"


def test_the_secret_is_shown_once_and_opens_the_api(operator: User) -> None:
    answer = browser(operator).post(TOKENS, {"name": "nightly", "role": "viewer", "days": 7})

    assert answer.status_code == 201
    secret = answer.json()["secret"]
    assert secret not in browser(operator).get(TOKENS).content.decode()
    assert not ApiToken.objects.filter(digest=secret).exists()
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    me = client.get(ME).json()
    assert (me["username"], me["role"], me["token"]["name"]) == (operator.username, "viewer", "nightly")


def test_a_token_has_its_own_role_where_that_is_less(admin: User) -> None:
    client = script(admin, Role.VIEWER)

    assert client.get(WORKLOADS).status_code == 200
    answer = client.post(WORKLOADS, {})

    assert answer.status_code == 403
    assert "is viewer; this needs tuner" in answer.json()["title"]
    admin.refresh_from_db()
    assert admin.role == Role.ADMIN


def test_a_token_loses_the_role_that_its_owner_loses(admin: User) -> None:
    client = script(admin, Role.ADMIN)

    User.objects.filter(pk=admin.pk).update(role=Role.VIEWER)

    assert client.get(ME).json()["role"] == "viewer"
    assert client.post(WORKLOADS, {}).status_code == 403


def test_a_user_cannot_issue_a_token_above_the_own_role(operator: User) -> None:
    answer = browser(operator).post(TOKENS, {"name": "more", "role": "admin"})

    assert answer.status_code == 403
    assert not ApiToken.objects.exists()


def test_a_token_issues_none_that_outlasts_it(operator: User) -> None:
    client = script(operator, Role.OPERATOR, days=2)

    assert client.post(TOKENS, {"name": "heir", "days": 3}).json()["field"] == "days"
    assert client.post(TOKENS, {"name": "heir", "days": 1}).status_code == 201


def test_a_viewer_token_issues_no_operator_token(operator: User) -> None:
    assert script(operator, Role.VIEWER, days=9).post(TOKENS, {"name": "up", "role": "operator"}).status_code == 403


def test_an_expired_token_says_so(viewer: User) -> None:
    client = script(viewer)
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    answer = client.get(ME)

    assert answer.status_code == 401
    assert "expired on" in answer.json()["title"]


def test_a_revoked_token_is_unknown(viewer: User) -> None:
    client = script(viewer)
    token = ApiToken.objects.get()

    assert browser(viewer).delete(f"{TOKENS}{token.pk}/").status_code == 204

    assert client.get(ME).json()["title"] == "unknown token"
    assert AuditEntry.objects.filter(action="token.revoke", actor=viewer).exists()


def test_a_user_cannot_see_or_revoke_tokens_of_others(viewer: User, operator: User) -> None:
    script(operator)
    token = ApiToken.objects.get()

    assert browser(viewer).get(TOKENS).json()["results"] == []
    assert browser(viewer).delete(f"{TOKENS}{token.pk}/").status_code == 404


def test_a_token_of_a_deactivated_user_is_refused(viewer: User) -> None:
    client = script(viewer)

    User.objects.filter(pk=viewer.pk).update(is_active=False)

    assert client.get(ME).status_code == 401


def test_use_of_a_token_is_remembered(viewer: User) -> None:
    script(viewer).get(ME)

    assert ApiToken.objects.get().last_used_at is not None


def test_a_session_needs_the_csrf_token_and_a_bearer_does_not(tuner: User) -> None:
    body = {"name": "w", "kind": "pgbench", "options": {"builtin": "select-only"}}

    refused = browser(tuner, enforce_csrf_checks=True).post(WORKLOADS, body)
    assert refused.status_code == 403
    assert "CSRF" in refused.json()["title"]

    assert script(tuner).post(WORKLOADS, body).status_code == 201


def test_a_session_with_the_csrf_token_may_write(tuner: User) -> None:
    client = browser(tuner, enforce_csrf_checks=True)
    client.cookies["csrftoken"] = "a" * 32
    body = {"name": "w", "kind": "pgbench", "options": {"builtin": "select-only"}}

    assert client.post(WORKLOADS, body, HTTP_X_CSRFTOKEN="a" * 32).status_code == 201


def test_another_authorization_scheme_is_refused(db: None) -> None:
    make_user(Role.ADMIN, name="ada")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION="Basic YWRhOmNvcnJlY3QgaG9yc2UgYmF0dGVyeQ==")

    assert client.get(ME).status_code == 401
