"""A request that is too large is refused before it is read, with the limit."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.logs import UnknownName
from apps.middleware import limits
from tests.rows import populate


@pytest.fixture
def browser(client: Client, db: None) -> Client:
    client.force_login(populate.user(Role.ADMIN))
    return client


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST", 1000)


def test_a_page_explains_the_limit(browser: Client) -> None:
    answer = browser.post(reverse("recipe_add"), {"yaml": "x" * 2000})

    assert answer.status_code == 413
    assert "at most 1000 are accepted" in answer.content.decode()


def test_the_api_says_so_as_a_problem(browser: Client) -> None:
    answer = browser.post("/api/v1/recipes/", {"yaml": "x" * 2000}, content_type="application/json")

    assert (answer.status_code, answer.headers["Content-Type"]) == (413, "application/problem+json")
    assert answer.json()["title"].endswith("bytes are too many")


def test_requests_without_a_login_are_refused_as_well(db: None) -> None:
    assert Client().post(reverse("login"), {"username": "x" * 2000}).status_code == 413


def test_an_import_takes_more(browser: Client) -> None:
    answer = browser.post(reverse("import_new"), {"note": "x" * 2000})

    assert answer.status_code == 422


@pytest.mark.parametrize("length", ["", "many", "-5"])
def test_an_invalid_content_length_is_ignored(browser: Client, length: str) -> None:
    assert browser.get(reverse("account"), CONTENT_LENGTH=length).status_code == 200


@pytest.mark.parametrize("length", ["100000000", "9" * 5000, "0" * 30 + "100000000"])
def test_a_content_length_is_read_to_its_end(browser: Client, length: str) -> None:
    assert browser.get(reverse("account"), CONTENT_LENGTH=length).status_code == 413


def test_a_request_for_another_name_says_where_the_server_is_and_leaves_one_line_in_the_log(
    db: None, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.BASE_URL = "https://proving.example.org"
    page, api = (Client(headers={"host": "10.0.0.9:8000"}).get(path) for path in (reverse("login"), "/api/v1/hosts/"))

    assert (page.status_code, api.status_code) == (400, 400)
    for answer in (page, api):
        assert "does not answer under the name" in answer.content.decode()
        assert "open https://proving.example.org, or add the name to PROVING_ALLOWED_HOSTS" in answer.content.decode()
    (logged, *_) = [record for record in caplog.records if record.name == "django.security.DisallowedHost"]
    assert "10.0.0.9:8000" in logged.getMessage()
    assert UnknownName().filter(logged)
    assert logging.Formatter().format(logged).count("\n") == 0
