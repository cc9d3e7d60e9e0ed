"""No page and no endpoint responds with 500 to unusual input.

Names of parameters are read from the source, so that new ones are tested as well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from tests.apps.accounts.test_api_roles import ALL, Endpoint
from tests.documents import permissions
from tests.documents.pages import pages
from tests.documents.permissions import PAGES
from tests.rows import filled
from tests.rows.factories import browser, make_user

APPS = Path(settings.BASE_DIR) / "apps"
ASKED = re.compile(r"(?:GET|POST|query_params|asked|posted|query)\.(?:get|getlist)\(\s*\"([a-z_-]+)\"")
FIELDS = re.compile(r"^    ([a-z_]+) = forms\.\w+Field", re.M)
ODD = {
    "nul": "\0",
    "superscript two": "²",
    "25 digits": "9" * 25,
    "5000 digits": "9" * 5000,
    "negative": "-1",
    "last day": "9999-12-31",
    "first moment": "0001-01-01T00:00:00+14:00",
    "no number": "nan",
    "nothing set": "=x",
    "brackets": "[" * 3000,
    "half a pair": "\\ud800",
    "quotes and markup": "%'\"`;--<script>%s{0}{{x}}",
}
# What a URL may carry: gunicorn takes no longer line.
SHORT = {name: value for name, value in ODD.items() if len(value) < 100}


def _names() -> list[str]:
    texts = [each.read_text() for each in sorted(APPS.rglob("*.py"))]
    return sorted({name for text in texts for name in (*ASKED.findall(text), *FIELDS.findall(text))})


NAMES = _names()


@pytest.fixture
def team(db: None) -> dict[str, Any]:
    return filled.team()


@pytest.fixture
def admin_client(team: dict[str, Any], client: Client) -> Client:
    client.force_login(team["admin"])
    client.raise_request_exception = False
    return client


def broken(answers: dict[str, int]) -> dict[str, int]:
    return {name: status for name, status in answers.items() if status >= 500}


def test_the_names_are_found() -> None:
    assert {"host", "team", "until", "after", "width", "version", "username", "fingerprint"} <= set(NAMES)


@pytest.mark.thorough
def test_no_page_breaks_on_odd_parameters(admin_client: Client, team: dict[str, Any]) -> None:
    urls = {url.partition("?")[0] for _, url, _ in pages(team)}

    answers = {
        f"{url} {odd}": admin_client.get(url, dict.fromkeys(NAMES, value)).status_code
        for url in sorted(urls)
        for odd, value in SHORT.items()
    }

    assert broken(answers) == {}


def _posted() -> list[str]:
    """Addresses that need nothing in them."""
    return [each.name for each in permissions.pages() if not each.keys and each.name in PAGES and PAGES[each.name].post]


@pytest.mark.thorough
def test_no_form_breaks_on_odd_input(admin_client: Client, team: dict[str, Any]) -> None:
    answers = {}

    for odd, value in ODD.items():
        for name in _posted():
            with transaction.atomic():
                typed = dict.fromkeys(NAMES, value)
                answers[f"{name} {odd}"] = admin_client.post(reverse(name), typed).status_code
                transaction.set_rollback(True)
            admin_client.force_login(team["admin"])

    assert broken(answers) == {}


@pytest.mark.parametrize("name", ["login", "password_forgot"])
@pytest.mark.parametrize("value", [*ODD.values(), "x" * 256, "x" * 100_000], ids=[*ODD, "256", "100000"])
def test_no_form_before_the_login_breaks(db: None, name: str, value: str) -> None:
    client = Client(raise_request_exception=False)

    answer = client.post(reverse(name), {"username": value, "password": value, "email": value, "next": value})

    assert answer.status_code < 500


DOCUMENTS = {
    "nothing": "",
    "null": "null",
    "a list": "[]",
    "a text": '"x"',
    "brackets": "[" * 100_000,
    "deep": '{"a":' * 100_000,
    "closed deep": "[" * 3000 + "]" * 3000,
    "nan": "NaN",
    "a long number": "9" * 5000,
}


def _sent(endpoint: Endpoint, document: str) -> int:
    client = browser(make_user(Role.ADMIN), raise_request_exception=False)
    url = reverse(endpoint.url_name)
    answer = client.generic(endpoint.method.upper(), url, document, content_type="application/json")
    return int(answer.status_code)


WRITING = [each for each in ALL if each.method in ("post", "patch", "put") and not each.keys]


@pytest.mark.thorough
def test_no_endpoint_breaks_over_a_document(db: None) -> None:
    answers = {f"{each.name} {odd}": _sent(each, text) for each in WRITING for odd, text in DOCUMENTS.items()}

    assert broken(answers) == {}


@pytest.mark.thorough
def test_no_list_of_the_api_breaks_on_odd_parameters(team: dict[str, Any]) -> None:
    client = browser(team["admin"], raise_request_exception=False)
    reading = [each for each in ALL if each.method == "get" and not each.keys]

    answers = {
        f"{each.name} {odd}": client.get(reverse(each.url_name), dict.fromkeys(NAMES, value)).status_code
        for each in reading
        for odd, value in SHORT.items()
    }

    assert answers
    assert broken(answers) == {}


@pytest.mark.parametrize("value", ["9" * 25, "-1", "²", "x"])
def test_no_stream_breaks_over_the_event_where_it_continues(
    admin_client: Client, team: dict[str, Any], value: str
) -> None:
    url = reverse("run_stream", args=[team["ok_run"].pk])

    assert admin_client.get(url, headers={"Last-Event-ID": value}).status_code < 500


def test_json_of_three_mib_is_answered_as_json(db: None) -> None:
    client = browser(make_user(Role.ADMIN))
    sent = '{"name": "' + "x" * 3 * 1024**2 + '"}'

    answer = client.generic("POST", "/api/v1/teams/", sent, content_type="application/json")

    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")


def test_an_invalid_page_number_does_not_contact_a_host(admin_client: Client) -> None:
    assert admin_client.get(reverse("campaign_new"), {"host": "²"}).status_code == 200
