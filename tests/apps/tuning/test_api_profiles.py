"""Profiles, their revisions, and the catalogue over the API."""

from __future__ import annotations

import pytest

from agents.settings import SETTINGS
from apps.accounts.models import User
from apps.tuning.exports import FORMATS
from apps.tuning.models import Revision
from tests.rows.factories import browser, make_host, make_profile

PROFILES = "/api/v1/profiles/"
PINNED = {"cpu_affinity": {"server": "0"}}


def test_a_profile_is_created_with_its_first_revision(tuner: User) -> None:
    answer = browser(tuner).post(PROFILES, {"name": "pinned", "settings": PINNED, "note": "first"})

    assert answer.status_code == 201, answer.content
    latest = answer.json()["latest"]
    assert (latest["number"], latest["settings"], latest["author"]) == (1, PINNED, tuner.username)


def test_a_setting_outside_the_catalogue_is_named(tuner: User) -> None:
    answer = browser(tuner).post(PROFILES, {"name": "odd", "settings": {"turbo": {}}})

    assert (answer.status_code, answer.json()["field"]) == (400, "settings.turbo")
    assert "cpu_affinity" in answer.json()["hint"]
    assert not Revision.objects.exists()


def test_a_change_is_the_next_revision_and_no_change_is_none(tuner: User) -> None:
    profile = make_profile(settings=PINNED).profile
    client, path = browser(tuner), f"{PROFILES}{profile.pk}/revisions/"

    same = client.post(path, {"settings": PINNED}).json()
    next_one = client.post(path, {"settings": {"cpu_affinity": {"server": "0-1"}}, "note": "wider"}).json()

    assert (same["number"], next_one["number"]) == (1, 2)
    assert [row["number"] for row in client.get(path).json()["results"]] == [2, 1]


def test_the_difference_of_two_revisions_is_by_path(tuner: User) -> None:
    profile = make_profile(settings=PINNED).profile
    client = browser(tuner)
    settings = {"cpu_affinity": {"server": "0-1"}, "postgresql": {"shared_buffers": "1GB"}}
    client.post(f"{PROFILES}{profile.pk}/revisions/", {"settings": settings})

    diff = client.get(f"{PROFILES}{profile.pk}/diff/?from=1&to=2").json()

    assert diff == [
        {"path": "cpu_affinity.server", "before": "0", "after": "0-1"},
        {"path": "postgresql.shared_buffers", "before": None, "after": "1GB"},
    ]


def test_a_difference_needs_both_ends(viewer: User) -> None:
    profile = make_profile().profile
    client = browser(viewer)

    assert client.get(f"{PROFILES}{profile.pk}/diff/?to=1").json()["field"] == "from"
    assert client.get(f"{PROFILES}{profile.pk}/diff/?from=1&to=9").status_code == 404


def test_a_dry_run_has_the_commands_of_a_dba_and_the_present_values(viewer: User) -> None:
    profile, host = make_profile(settings=PINNED | {"numa": {"policy": "default"}}).profile, make_host()

    dry_run = browser(viewer).get(f"{PROFILES}{profile.pk}/dry-run/?host={host.pk}").json()

    assert dry_run["lines"] == ["taskset -c 0 postgres -D $PGDATA"]
    assert [effect["setting"] for effect in dry_run["effects"]] == ["cpu_affinity", "numa"]
    assert dry_run["effects"][0]["items"][0]["present"] == "none"
    assert (dry_run["refusals"], dry_run["needs_start"]) == ([], ["taskset of PostgreSQL"])
    assert dry_run["taken_at"]


def test_a_dry_run_names_everything_that_the_host_cannot_have_at_once(viewer: User) -> None:
    settings = {"cpu_affinity": {"server": "64", "client": "65"}, "transparent_huge_pages": {"enabled": "never"}}
    profile, host = make_profile(settings=settings).profile, make_host()

    dry_run = browser(viewer).get(f"{PROFILES}{profile.pk}/dry-run/?host={host.pk}").json()

    refused = {refusal["field"]: refusal["accepted"] for refusal in dry_run["refusals"]}
    assert set(refused) == {"cpu_affinity.server", "cpu_affinity.client", "transparent_huge_pages.enabled"}
    assert "0-3" in refused["cpu_affinity.client"]
    assert dry_run["lines"] == []


def test_only_an_operator_may_query_a_host(viewer: User, operator: User) -> None:
    profile, host = make_profile(settings=PINNED).profile, make_host()
    url, body = f"{PROFILES}{profile.pk}/dry-run/", {"host": host.pk}

    assert browser(viewer).post(url, body).status_code == 403
    assert browser(operator).post(url, body).status_code == 502  # it may, but the host does not let us in


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_is_a_download_that_no_browser_interprets(viewer: User, kind: str) -> None:
    profile, host = make_profile("oltp", settings=PINNED).profile, make_host("db")

    answer = browser(viewer).get(f"{PROFILES}{profile.pk}/export/?host={host.pk}&file={kind}")

    assert answer.status_code == 200
    assert answer["Content-Disposition"].startswith('attachment; filename="oltp-r1-db')
    assert (answer["X-Content-Type-Options"], answer["Content-Type"]) == ("nosniff", "text/plain; charset=utf-8")
    assert "taskset -c 0 postgres" in answer.content.decode()


def test_an_export_of_an_unknown_kind_names_the_known_ones(viewer: User) -> None:
    profile, host = make_profile(settings=PINNED).profile, make_host()

    answer = browser(viewer).get(f"{PROFILES}{profile.pk}/export/?host={host.pk}&file=ini")

    assert (answer.status_code, answer.json()["field"]) == (400, "file")


def test_a_dry_run_needs_a_host_that_exists(viewer: User) -> None:
    profile = make_profile().profile

    assert browser(viewer).get(f"{PROFILES}{profile.pk}/dry-run/?host=9999").json()["field"] == "host"


def test_the_catalogue_has_schema_level_and_risk(viewer: User) -> None:
    client = browser(viewer)

    rows = client.get("/api/v1/settings/").json()

    assert [row["name"] for row in rows] == list(SETTINGS)
    affinity = client.get("/api/v1/settings/cpu_affinity/").json()
    assert (affinity["level"], affinity["schema"]["type"]) == ("user", "object")
    assert affinity["risk"]
    assert "cpu_affinity" in client.get("/api/v1/settings/turbo/").json()["title"]
