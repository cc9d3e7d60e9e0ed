"""Pages, API and CLI show version and commit, and the server refuses incompatible clients."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.configuration import version
from apps.hosts import contact
from apps.hosts.access import ssh
from apps.hosts.models import Host
from tests.rows.factories import browser

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def built(settings: Any) -> None:
    settings.VERSION, settings.COMMIT = "0.2.0", "1f3a9c0d77aa"


def test_the_commit_is_the_configured_one_or_that_of_the_checkout(tmp_path: Path) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert version.read_commit(ROOT, "") == head[:12]
    assert version.read_commit(ROOT, "f" * 40) == "f" * 12
    assert version.read_commit(tmp_path, "") == ""


@pytest.mark.django_db
def test_every_page_shows_version_and_commit_in_its_footer(admin: User) -> None:
    for page in (Client().get("/login/"), browser(admin).get("/account/")):
        assert b"Proving Ground 0.2.0 <code>1f3a9c0d77aa</code>" in page.content


def test_the_api_and_its_schema_have_version_and_commit(admin: User) -> None:
    answer = browser(admin).get("/api/v1/version/")

    assert answer.json() == {"version": "0.2.0", "commit": "1f3a9c0d77aa"}
    assert answer.headers["Proving-Version"] == "0.2.0"
    assert browser(admin).get("/api/schema/?format=json").json()["info"]["version"].startswith("0.2.0")


@pytest.mark.parametrize(
    ("client", "server", "fits"),
    [
        ("0.2.0", "0.2.9", True),
        ("0.2.0", "0.3.0", False),
        ("1.0.0", "1.7.2", True),
        ("1.0.0", "2.0.0", False),
        ("0.2", "0.2.0", False),
        ("", "0.2.0", False),
    ],
)
def test_versions_of_one_series_fit(client: str, server: str, fits: bool) -> None:
    assert version.fit(client, server) is fits


@pytest.mark.parametrize("client", ["proving/0.1.0", "proving/0.3.0", "proving/0.1", "proving/"])
def test_an_incompatible_client_is_refused_before_anything_is_done(admin: User, client: str) -> None:
    answer = browser(admin).post("/api/v1/tokens/", {"name": "x"}, headers={"User-Agent": client})

    problem = answer.json()
    number = client.removeprefix("proving/")
    assert answer.status_code == 426
    assert problem["title"] == f"proving {number} is not compatible with this server, version 0.2.0"
    assert problem["hint"] == "install proving 0.2, the version of the server"


@pytest.mark.django_db
@pytest.mark.parametrize("client", ["proving/0.2.7", "curl/8.5.0", ""])
def test_other_clients_are_served(client: str) -> None:
    assert Client().get("/api/v1/me/", headers={"User-Agent": client}).status_code == 401


def test_an_agent_reports_its_version_and_commit(host: Host) -> None:
    with ssh.Link(host) as link:
        contact.record_contact(host, link.hello)

    built = {name: link.hello[name] for name in ("agent", "version", "commit")}
    assert built == {"agent": ssh.agent_zipapp()[0], "version": host.agent_version, "commit": link.hello["commit"]}
    assert host.agent_version == version.read_version(ROOT)
