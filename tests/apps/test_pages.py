"""Every page: its role, that a GET changes nothing, and its content without rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.apps import apps
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse
from django.utils import timezone

from apps.accounts.models import Role
from apps.results.models import CachedAnswer
from tests.documents.pages import pages
from tests.rows import filled, populate

TEMPLATES = Path(settings.BASE_DIR) / "templates"
NUMBERS = re.compile(r"[0-9a-f-]*\d[0-9a-f-]*")


@pytest.fixture
def team(db: None) -> dict[str, Any]:
    return filled.team()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ADMIN])
def test_pages_are_shown_or_refused_stay_in_no_cache_and_change_nothing(
    client: Client, team: dict[str, Any], role: Role
) -> None:
    """tests/apps/test_permissions.py asks every address of the server for every role."""
    client.force_login(team[role.value])
    before = _everything()

    answers = {name: client.get(url) for name, url, _ in pages(team)}

    expected = {name: 200 if role.includes(least) else 403 for name, _, least in pages(team)}
    assert {name: answer.status_code for name, answer in answers.items()} == expected
    cache_controls = {
        name: answer.headers.get("Cache-Control", "") for name, answer in answers.items() if expected[name] == 200
    }
    assert {
        name: each for name, each in cache_controls.items() if "no-store" not in each and "private" not in each
    } == {}
    assert _everything() == before


def test_the_login_refusals_and_the_api_stay_in_no_cache(client: Client, team: dict[str, Any]) -> None:
    of_admins = next(url for _, url, least in pages(team) if least == Role.ADMIN)
    answers = {"login": client.get(reverse("login"))}
    client.force_login(team["viewer"])

    answers |= {"refused": client.get(of_admins), "missing": client.get("/hosts/missing/")}
    answers["missing in the api"] = client.get("/api/v1/hosts/0/")

    expected = {"login": 200, "refused": 403, "missing": 404, "missing in the api": 404}
    assert {name: answer.status_code for name, answer in answers.items()} == expected
    stored = {name: answer.headers.get("Cache-Control", "") for name, answer in answers.items()}
    assert {name: each for name, each in stored.items() if "no-store" not in each} == {}


def test_requests_without_a_login_are_sent_to_the_login(client: Client, team: dict[str, Any]) -> None:
    for name, url, _ in pages(team):
        answer = client.get(url)
        assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (302, reverse("login")), name


def _everything() -> dict[str, list[Any]]:
    """All rows except cached answers, which contain nothing new."""
    ours = ("accounts", "hosts", "tuning", "campaigns", "results", "searches", "decisions")
    models = [model for label in ours for model in apps.get_app_config(label).get_models() if model is not CachedAnswer]
    return {model.__name__: sorted(map(repr, model.objects.order_by().values_list())) for model in models}


@pytest.mark.parametrize(
    "name",
    [
        "home",
        "host_list",
        "profile_list",
        "workload_list",
        "dataset_list",
        "campaign_list",
        "timeline",
        "account",
        "channel_list",
        "dashboard",
        "pin_list",
    ],
)
def test_an_empty_server_says_what_to_do(client: Client, db: None, name: str) -> None:
    client.force_login(populate.user(Role.ADMIN))

    answer = client.get(reverse(name))

    assert answer.status_code == 200
    assert b'class="empty"' in answer.content


@pytest.mark.thorough
def test_every_link_of_every_page_leads_somewhere(client: Client, team: dict[str, Any]) -> None:
    client.force_login(team["admin"])
    links: set[str] = set()
    for _, url, _ in pages(team):
        html = client.get(url).content.decode()
        path = url.split("?")[0]
        hrefs = {link.replace("&amp;", "&").split("#")[0] for link in re.findall(r'href="([^"]*)"', html)}
        links |= {path + link if link.startswith("?") else link for link in hrefs if link and "/static/" not in link}

    broken = {link: code for link in sorted(one_of_each_kind(links)) if (code := status(client, link)) != 200}
    assert broken == {}


def one_of_each_kind(links: set[str]) -> set[str]:
    """Of the links that differ only in a key of an address or in a number of its query, the first."""
    kinds: dict[tuple[Any, ...], str] = {}
    for link in sorted(links):
        path, _, query = link.partition("?")
        match = resolve(path)
        chosen = tuple(sorted((name, NUMBERS.sub("0", value)) for name, value in parse_qsl(query)))
        actions = tuple(value for name, value in match.kwargs.items() if name in ("action", "kind", "name", "file"))
        kinds.setdefault((match.view_name, actions, chosen), link)
    return set(kinds.values())


def status(client: Client, link: str) -> int:
    """Read to the end: a user has only a few downloads at a time."""
    answer = client.get(link, follow=True)
    for _ in answer:
        pass
    return answer.status_code


QUERIES = {
    "home": 30,
    "host_list": 4,
    "profile_list": 3,
    "workload_list": 3,
    "dataset_list": 4,
    "campaign_list": 4,
    "recipe_list": 4,
    "timeline": 9,
}


def test_the_number_of_queries_of_a_list_does_not_grow_with_its_length(client: Client, team: dict[str, Any]) -> None:
    client.force_login(team["admin"])
    populate.finished(team["operator"], team["host"], name="another")
    populate.profile(team["tuner"], "another")
    populate.workload(team["tuner"], "another")
    other = populate.dataset(team["tuner"], "another")
    populate.preparation(team["operator"], other, team["host"], timezone.now())
    populate.host("another")

    made = {name: _queries(client, reverse(name)) for name in QUERIES}

    assert {name: count for name, count in made.items() if count > QUERIES[name]} == {}


def _queries(client: Client, url: str) -> int:
    """Of a page of which nothing is cached yet."""
    cache.clear()
    with CaptureQueriesContext(connection) as queries:
        assert client.get(url).status_code == 200
    return len(queries)


def test_no_line_of_a_template_is_longer_than_250_characters() -> None:
    """Longer ones hid conditions within sentences."""
    lines = [(path, line) for path in TEMPLATES.rglob("*.html") for line in path.read_text().splitlines()]

    assert lines
    assert [f"{path.relative_to(TEMPLATES)}: {line[:60]}" for path, line in lines if len(line) > 250] == []
