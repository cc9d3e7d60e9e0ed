"""Remote servers from the command line, against a running Proving Ground."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from apps.accounts.models import Role, User
from apps.hosts.models import Host, RemoteServer
from apps.hosts.usage import remote_servers
from tests.cli.program import Program
from tests.rows.factories import make_host

SECRET = "s3cret"


@pytest.fixture
def host(db: None) -> Host:
    return make_host("db1")


@pytest.fixture
def shop(host: Host, people: dict[Role, User]) -> RemoteServer:
    where = {"addresses": ["db.example.com"], "user": "loader", "sslmode": "require", "password": SECRET}
    return remote_servers.register(host, "shop", by=people[Role.ADMIN], **where)


@pytest.mark.thorough
def test_an_admin_adds_lists_and_removes_a_server(program: Callable[..., Program], host: Host, tmp_path: Path) -> None:
    proving = program(Role.ADMIN)
    password = tmp_path / "password"
    password.write_text(f"{SECRET}\n")
    where = ("--address", "a.example.com", "--address", "b.example.com", "--user", "loader", "--sslmode", "require")
    options = ("--password-file", str(password), "--wait-minutes", "30")
    database = ("--database", "bench", "--use-database")

    added = proving.json("remote", "add", "db1", "shop", *where, *options, *database)
    listed = proving.run("remote", "ls", "db1").stdout

    server = RemoteServer.objects.get()
    assert added[0]["addresses"] == ["a.example.com", "b.example.com"] and SECRET not in str(added)
    assert remote_servers.access(server)["password"] == SECRET and "not checked" in listed
    assert (added[0]["database"], server.use_database) == ("bench", True)
    assert added[0]["wait_minutes"] == server.wait_minutes == 30
    assert proving.json("remote", "rm", "db1", "shop") == [] and not RemoteServer.objects.exists()


def test_a_role_below_admin_cannot_add_a_server(proving: Program, host: Host, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET)
    where = ("--address", "a", "--user", "loader", "--sslmode", "require")

    refused = proving.run("remote", "add", "db1", "shop", *where, "--password-file", str(tmp_path / "password"))

    assert refused.returncode != 0 and not RemoteServer.objects.exists()


def test_a_failed_check_shows_its_error_and_exits_with_1(proving: Program, shop: RemoteServer) -> None:
    failed = proving.run("remote", "check", "db1", "shop")

    assert failed.returncode == 1
    shop.refresh_from_db()
    assert shop.check_error is not None and shop.check_error["message"] in " ".join(failed.stdout.split())
