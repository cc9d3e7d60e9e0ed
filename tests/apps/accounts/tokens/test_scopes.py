"""Every endpoint of the API with every scope."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import get_resolver, reverse

from apps.accounts.models import ANY, NONE, ApiToken, AuditEntry, Role, Scope, User
from apps.web.rest import scope_of
from tests.apps.accounts.test_api_roles import ALL, Endpoint, one_of_each
from tests.documents.permissions import SCOPES
from tests.rows import filled
from tests.rows.factories import browser, make_user, script

WRITES = [each for each in ALL if each.method != "get"]


@pytest.fixture
def rows(db: None) -> dict[str, Any]:
    return filled.once(one_of_each)


def _views() -> dict[str, Any]:
    views: dict[str, Any] = {}

    def walk(patterns: list[Any]) -> None:
        for pattern in patterns:
            if hasattr(pattern, "url_patterns"):
                walk(pattern.url_patterns)
            elif hasattr(pattern.callback, "actions"):
                views[pattern.callback.cls.__name__.removesuffix("ViewSet")] = pattern.callback.cls

    walk(get_resolver("apps.api_urls").url_patterns)
    return views


def test_each_endpoint_has_the_scope_that_the_table_declares() -> None:
    views = _views()
    declared = {write.name: scope_of(views[write.room], write.name.partition(".")[2], write.method) for write in WRITES}

    assert declared == {write.name: SCOPES.get(write.name, SCOPES.get(write.room, NONE)) for write in WRITES}


@pytest.mark.parametrize("endpoint", WRITES, ids=lambda each: each.name)
def test_a_token_writes_only_with_its_scope(endpoint: Endpoint, rows: dict[str, Any]) -> None:
    needed = SCOPES.get(endpoint.name, SCOPES.get(endpoint.room, NONE))
    url = reverse(endpoint.url_name, kwargs=dict.fromkeys(endpoint.keys, rows[endpoint.room]))

    answers = {
        scope: getattr(script(make_user(Role.ADMIN), scopes=[scope]), endpoint.method)(url, {}) for scope in Scope
    }

    for scope, answer in answers.items():
        if needed in (scope, ANY):
            assert answer.status_code != 403, (scope, answer.content)
        else:
            assert answer.status_code == 403, (scope, answer.content)
            assert f"the token has the scope {scope.value}; " in answer.json()["title"]
            assert (needed or "no scope permits this") in answer.json()["title"]


@pytest.mark.parametrize("scope", list(Scope))
def test_a_token_with_any_scope_reads_like_its_role(admin: User, scope: Scope) -> None:
    client = script(admin, scopes=[scope])

    answers = {path: client.get(f"/api/v1/{path}/").status_code for path in ("campaigns", "hosts", "users", "audit")}

    assert set(answers.values()) == {200}


def test_a_token_with_two_scopes_permits_both(operator: User) -> None:
    client = script(operator, scopes=["hosts", "campaigns"])

    assert client.post("/api/v1/campaigns/", {}).status_code == 400
    assert client.post("/api/v1/hosts/1/check/").status_code == 404


def test_a_token_without_scopes_permits_all_actions_of_its_role_as_before(admin: User) -> None:
    client = script(admin)

    assert client.post("/api/v1/teams/", {"name": "storage"}).status_code == 201
    assert client.get("/api/v1/tokens/").json()["results"][0]["scopes"] == []


def test_a_scope_adds_nothing_to_the_role(viewer: User) -> None:
    answer = script(viewer, scopes=["campaigns"]).post("/api/v1/campaigns/", {})

    assert answer.status_code == 403
    assert "is viewer; this needs operator" in answer.json()["title"]


def test_a_stored_response_is_not_repeated_to_a_token_with_another_scope(operator: User) -> None:
    key, body = {"HTTP_IDEMPOTENCY_KEY": "k-1"}, {"name": "ci", "role": "viewer", "days": 1}
    script(operator, days=9).post("/api/v1/tokens/", body, **key)

    answer = script(operator, scopes=["read"]).post("/api/v1/tokens/", body, **key)

    assert answer.status_code == 422


def test_an_unknown_scope_is_refused_with_the_accepted_ones(operator: User) -> None:
    answer = browser(operator).post("/api/v1/tokens/", {"name": "t", "scopes": ["everything"]})

    assert (answer.status_code, answer.json()["field"]) == (400, "scopes.0")
    assert "everything" in answer.json()["title"]
    assert not ApiToken.objects.exists()


def test_the_audit_log_has_the_limits_of_a_new_token(operator: User) -> None:
    body = {"name": "ci", "scopes": ["campaigns"], "networks": ["10.2.0.0/16"]}

    browser(operator).post("/api/v1/tokens/", body)

    after = AuditEntry.objects.get(action="token.issue").after
    assert (after["scopes"], after["networks"], after["team"]) == (["campaigns"], ["10.2.0.0/16"], "")
