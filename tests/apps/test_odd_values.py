"""No page and no endpoint responds with 500 to unusual input.

Names of parameters are read from the source, so that new ones are tested as well."""

from __future__ import annotations

import gzip
import json
import re
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client
from django.urls import NoReverseMatch, resolve, reverse

from apps.accounts.models import Role
from tests.apps.accounts.test_api_roles import ALL, one_of_each
from tests.apps.test_permissions import addresses, keys_in_addresses, log_in
from tests.documents.pages import pages
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
    """Internal errors; 502 is the answer of an action that contacts a host, which does not exist here."""
    return {name: status for name, status in answers.items() if status >= 500 and status != 502}


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


def _posted(team: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, URL) of every form, button and action, for rows that exist."""
    keys = keys_in_addresses(team)
    return [(name, url) for name, url, rule in addresses(team, keys) if rule.post]


def _answer(cookies: SimpleCookie, method: str, url: str, *data: Any, **options: Any) -> int:
    """The status of one request, in a transaction that is rolled back."""
    client = Client(raise_request_exception=False)
    client.cookies = SimpleCookie(cookies)
    with transaction.atomic():
        status = int(getattr(client, method)(url, *data, **options).status_code)
        transaction.set_rollback(True)
    return status


def _mixed() -> list[dict[str, str]]:
    """Two forms in which each field has another odd value, without the NUL that is refused for all forms at once."""
    values = [value for name, value in ODD.items() if name != "nul"]
    return [{name: values[(place + first) % len(values)] for place, name in enumerate(NAMES)} for first in (0, 5)]


@pytest.mark.thorough
def test_no_form_breaks_on_odd_input(team: dict[str, Any]) -> None:
    cookies, forms = log_in(team["admin"]), _posted(team)
    own_rows = [name for name, url in forms if url == _bare(name)]
    alike = [dict.fromkeys(NAMES, value) for value in ODD.values()]
    assert {"host_action:reserve", "campaign_extend", "decision_action:accept"} <= {*dict(forms)} - {*own_rows}

    answers = {
        f"{name} {number}": _answer(cookies, "post", url, typed)
        for name, url in forms
        for number, typed in enumerate(alike if name in own_rows else _mixed())
    }

    assert broken(answers) == {}


def _bare(name: str) -> str:
    """The URL of an address without keys; "" for others."""
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["import_new", "twin_add"])
def test_no_upload_breaks_on_odd_files(team: dict[str, Any], name: str) -> None:
    """Each value is the content of a file, and its name."""
    cookies, contents = log_in(team["admin"]), [value.encode() for value in ODD.values()]
    contents += [b"PK\x03\x04" + b"\0" * 30, b"\xff" * 100, gzip.compress(b"x"), b""]

    answers = {}
    for content in contents:
        called = content[:90].decode("latin-1") or "a"
        sent = {field: SimpleUploadedFile(called, content) for field in ("files", "file", "capture")}
        answers[repr(called)] = _answer(cookies, "post", reverse(name), sent)

    assert broken(answers) == {}


NAMED = [SHORT[name] for name in ("nul", "superscript two", "25 digits", "half a pair", "quotes and markup")]


@pytest.mark.thorough
def test_no_address_breaks_on_odd_keys(team: dict[str, Any]) -> None:
    """Texts in a path are replaced by odd ones, numbers by a long one."""
    cookies, odd_urls = log_in(team["admin"]), set()
    for _, url, _ in addresses(team, keys_in_addresses(team)):
        path = url.partition("?")[0]
        for key in resolve(path).kwargs.values():
            values = NAMED if isinstance(key, str) else [SHORT["25 digits"]] if isinstance(key, int) else []
            odd_urls |= {path.replace(f"/{quote(str(key))}", f"/{quote(value, safe='')}", 1) for value in values}
    assert "/hosts/%00/" in odd_urls

    answers = {url: _answer(cookies, "get", url) for url in sorted(odd_urls)}

    assert broken(answers) == {}


ALONE = ("Authorization", "Cookie", "Content-Type")  # any other value makes the server ignore the rest of the request
HEADERS = ("User-Agent", "Referer", "Accept", "Accept-Language", "If-None-Match", "If-Match", "If-Modified-Since")
HEADERS += ("Idempotency-Key", "X-CSRFToken", "Range", "X-Forwarded-For", "X-Forwarded-Proto", "Last-Event-ID")
HEADERS += ("HX-Request", "HX-Current-URL", "HX-Target", "Origin", "traceparent")


@pytest.mark.thorough
def test_no_request_breaks_on_odd_headers(team: dict[str, Any]) -> None:
    """gunicorn refuses a NUL and line breaks itself."""
    cookies, host = log_in(team["admin"]), reverse("api:host-detail", args=[team["host"].pk])
    values = [value.encode().decode("latin-1") for value in [*SHORT.values(), "Bearer x", '"', "W/"]]
    requests = [("get", reverse("host_list")), ("post", reverse("login")), ("patch", host)]

    answers = {
        f"{names} {value!r} {method} {url}": _answer(cookies, method, url, headers=dict.fromkeys(names, value))
        for names in (HEADERS, *((name,) for name in ALONE))
        for value in values
        for method, url in requests
    }

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


WRITING = [each for each in ALL if each.method in ("post", "patch", "put")]


@pytest.mark.thorough
def test_no_endpoint_breaks_over_a_document(db: None) -> None:
    """Endpoints without keys get all documents, those of a row get objects with odd values."""
    rows, cookies = filled.once(one_of_each), log_in(make_user(Role.ADMIN))
    objects = {f"object {number}": json.dumps(mixed) for number, mixed in enumerate(_mixed())}

    answers = {
        f"{each.name} {odd}": _answer(cookies, each.method, url, text, content_type="application/json")
        for each in WRITING
        for url in [reverse(each.url_name, kwargs=dict.fromkeys(each.keys, rows[each.room]))]
        for odd, text in (objects | ({} if each.keys else DOCUMENTS)).items()
    }

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
