"""A request that is too large is refused before it is read, and says what would be taken."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps import limits
from apps.accounts.models import Role
from tests import populate


@pytest.fixture
def browser(client: Client, db: None) -> Client:
    client.force_login(populate.user(Role.ADMIN))
    return client


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST", 1000)


def test_a_page_says_so_in_words(browser: Client) -> None:
    answer = browser.post(reverse("recipe_add"), {"yaml": "x" * 2000})

    assert answer.status_code == 413
    assert "at most 1000 are taken here" in answer.content.decode()


def test_the_api_says_so_as_a_problem(browser: Client) -> None:
    answer = browser.post("/api/v1/recipes/", {"yaml": "x" * 2000}, content_type="application/json")

    assert (answer.status_code, answer.headers["Content-Type"]) == (413, "application/problem+json")
    assert answer.json()["title"].endswith("bytes are too many")


def test_who_is_not_logged_in_is_refused_as_well(db: None) -> None:
    assert Client().post(reverse("login"), {"username": "x" * 2000}).status_code == 413


def test_an_import_takes_more(browser: Client) -> None:
    answer = browser.post(reverse("import_new"), {"note": "x" * 2000})

    assert answer.status_code == 422


@pytest.mark.parametrize("told", ["", "many", "-5"])
def test_a_length_that_is_no_number_is_no_length(browser: Client, told: str) -> None:
    assert browser.get(reverse("account"), CONTENT_LENGTH=told).status_code == 200
