"""All errors of the API have the same format."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIClient, APIRequestFactory
from rest_framework.views import APIView

from apps.accounts.models import User
from common.errors import AgentError, HostError, PlanError, RoleError
from tests.rows.factories import browser, make_host

SHAPE = {"title", "status", "field", "hint", "blame"}


def problem_of(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert set(body) - {"errors"} == SHAPE
    assert body["status"] == status
    return body


def test_one_wrong_field_is_named(admin: User) -> None:
    body = problem_of(browser(admin).post("/api/v1/identities/", {"name": "No Good"}), 400)

    assert body["field"] == "name"
    assert "a-z, 0-9" in body["title"]
    assert "errors" not in body


def test_several_wrong_fields_are_all_named(tuner: User) -> None:
    body = problem_of(browser(tuner).post("/api/v1/workloads/", {"options": "fast"}), 400)

    assert {error["field"] for error in body["errors"]} == {"name", "options"}
    assert body["field"] in {"name", "options"}


def test_an_error_deep_in_a_body_has_its_path(tuner: User) -> None:
    body = {"name": "w", "kind": "pgbench", "options": {"clients": 0}}

    assert problem_of(browser(tuner).post("/api/v1/workloads/", body), 400)["field"] == "options.clients"


def test_a_service_error_says_what_is_accepted(tuner: User) -> None:
    body = problem_of(browser(tuner).post("/api/v1/workloads/", {"name": "w", "kind": "tpch", "options": {}}), 400)

    assert (body["field"], body["blame"]) == ("steps.0.kind", "plan")
    assert "pgbench" in body["hint"]


def test_an_unknown_row_is_404(viewer: User) -> None:
    body = problem_of(browser(viewer).get("/api/v1/hosts/999999/"), 404)

    assert body["title"] == "there is no such host, or you may not see it"


@pytest.mark.django_db  # the end of a request checks connections that earlier tests left open
@pytest.mark.parametrize("path", ["/api/v1/nonsense/", "/api/v1/hosts", "/api/"])
def test_an_unknown_address_is_404_and_no_page(path: str) -> None:
    assert "end with a slash" in problem_of(APIClient().get(path), 404)["hint"]


def test_a_wrong_method_is_405_and_says_what_is_allowed(admin: User) -> None:
    body = problem_of(browser(admin).put(f"/api/v1/hosts/{make_host().pk}/", {}), 405)

    assert body["hint"] == "allowed are: GET, PATCH, DELETE, HEAD, OPTIONS"


@pytest.mark.django_db
def test_api_requests_are_not_redirected_to_the_login_page() -> None:
    problem_of(APIClient().get("/api/v1/hosts/"), 401)
    problem_of(APIClient().post("/api/v1/campaigns/", {}), 401)


def test_a_form_is_415(tuner: User) -> None:
    answer = browser(tuner).post("/api/v1/workloads/", "name=w", content_type="application/x-www-form-urlencoded")

    assert "application/json" in problem_of(answer, 415)["hint"]


def test_broken_json_is_400(tuner: User) -> None:
    answer = browser(tuner).generic("POST", "/api/v1/workloads/", "{", content_type="application/json")

    assert "JSON" in problem_of(answer, 400)["title"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PlanError("seed", "is odd", hint="an even one"), 400),
        (RoleError("start", "you are viewer"), 403),
        (HostError("db1", "refused"), 502),
        (AgentError("agent", "ended"), 500),
        (Throttled(wait=7), 429),
    ],
)
def test_errors_become_problems_with_the_status_of_their_cause(error: Exception, status: int) -> None:
    class Failing(APIView):
        permission_classes: list[Any] = []

        def get(self, request: Request) -> Response:
            raise error

    answer = Failing.as_view()(APIRequestFactory().get("/"))
    answer.json = lambda: answer.data

    body = problem_of(answer.render(), status)
    assert body["title"]
    if status == 429:
        assert answer["Retry-After"] == "7"


def test_an_invalid_cursor_is_400(viewer: User) -> None:
    assert problem_of(browser(viewer).get("/api/v1/hosts/?cursor=99"), 400)["field"] == "cursor"


def test_a_filter_that_cannot_be_read_is_400(viewer: User) -> None:
    assert problem_of(browser(viewer).get("/api/v1/runs/?campaign=x"), 400)["field"] == "campaign"


@pytest.mark.parametrize("text", ["a\\u0000b", "\\ud800"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{{"name": "w", "kind": "pgbench", "options": {{"script": "{}"}}}}', "options.script"),
        ('{{"name": "w", "steps": [{{"options": {{"{}": 1}}}}]}}', "steps.0.options"),
    ],
)
def test_text_that_cannot_be_stored_is_400_and_named(tuner: User, body: str, field: str, text: str) -> None:
    answer = browser(tuner).generic("POST", "/api/v1/workloads/", body.format(text), content_type="application/json")

    assert problem_of(answer, 400)["field"] == field
