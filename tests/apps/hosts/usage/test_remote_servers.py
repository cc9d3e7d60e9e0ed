"""Remote servers: an admin decides which addresses a host contacts, and no user can read the secrets again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, Team, User
from apps.hosts import services
from apps.hosts.models import Host, RemoteServer
from apps.hosts.usage import remote_servers
from apps.infrastructure import references
from apps.operation import encrypted_fields
from common.errors import HostError, PlanError, RoleError
from tests.rows import populate
from tests.rows.factories import make_user

SECRET = "s3cret-of-loader"
FIELDS = {"addresses": ["db.example.com"], "user": "loader", "sslmode": "require", "password": SECRET}
PEM = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"


@pytest.fixture
def host(db: None) -> Host:
    return populate.host()


def test_an_admin_registers_a_server_and_the_audit_log_has_all_but_the_secret(host: Host, admin: User) -> None:
    server = remote_servers.register(host, "shop", by=admin, **FIELDS)

    entry = AuditEntry.objects.get(action="remote_server.add")
    assert entry.after["addresses"] == ["db.example.com"] and entry.after["password"] is True
    assert SECRET not in json.dumps([entry.before, entry.after]) + server.password_encrypted
    assert remote_servers.access(server)["password"] == SECRET
    assert "password_encrypted" in [each.field for each in encrypted_fields.every() if each.row == server]


def test_an_operator_cannot_register_a_server(host: Host) -> None:
    with pytest.raises(RoleError):
        remote_servers.register(host, "shop", by=make_user(Role.OPERATOR), **FIELDS)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"addresses": []}, "addresses"),
        ({"addresses": ["a", "b", "c", "d", "e"]}, "addresses"),
        ({"addresses": ["/var/run/postgresql"]}, "addresses"),
        ({"addresses": ["169.254.169.254"]}, "addresses"),
        ({"addresses": ["metadata.google.internal"]}, "addresses"),
        ({"addresses": ["fe80::1"]}, "addresses"),
        ({"addresses": ["::ffff:169.254.169.254"]}, "addresses"),
        ({"addresses": ["2852039166"]}, "addresses"),
        ({"addresses": ["0xA9FEA9FE"]}, "addresses"),
        ({"addresses": ["169.254.43518"]}, "addresses"),
        ({"addresses": ["a b"]}, "addresses"),
        ({"port": 0}, "port"),
        ({"wait_minutes": 10_081}, "wait_minutes"),
        ({"user": ""}, "user"),
        ({"database": "host=192.0.2.1 sslmode=disable"}, "database"),
        ({"database": "postgresql://192.0.2.1/shop"}, "database"),
        ({"database": "postgres://192.0.2.1/shop"}, "database"),
        ({"use_database": True}, "database"),
        ({"use_database": True, "database": "template1"}, "database"),
        ({"sslmode": "verify-full"}, "ca_certificate"),
        ({"sslmode": "verify-ca", "ca_certificate": "MII"}, "ca_certificate"),
        ({"password": ""}, "password"),
        ({"password": "two\nlines"}, "password"),
        ({"client_certificate": PEM}, "client_key"),
    ],
)
def test_an_error_names_the_field_that_is_not_accepted(
    host: Host, admin: User, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(PlanError) as refused:
        remote_servers.register(host, "shop", by=admin, **{**FIELDS, **fields})

    assert refused.value.subject == field and refused.value.hint
    assert not RemoteServer.objects.exists()


def test_another_address_does_not_get_the_password_of_the_earlier_one(host: Host, admin: User) -> None:
    remote_servers.register(host, "shop", by=admin, **FIELDS)

    server = remote_servers.register(host, "shop", by=admin, user="other", password="")
    with pytest.raises(PlanError, match="is required again, because the server changed"):
        remote_servers.register(host, "shop", by=admin, addresses=["evil.example.com"], password="")

    assert remote_servers.access(server)["password"] == SECRET
    assert RemoteServer.objects.get().addresses == ["db.example.com"]


@pytest.mark.parametrize("fields", [{"sslmode": "require"}, {"ca_certificate": f"{PEM}{PEM}"}], ids=["mode", "CA"])
def test_a_server_that_is_verified_less_does_not_get_the_password(
    host: Host, admin: User, fields: dict[str, Any]
) -> None:
    verified = {**FIELDS, "sslmode": "verify-full", "ca_certificate": PEM}
    remote_servers.register(host, "shop", by=admin, **verified)

    with pytest.raises(PlanError, match="is required again, because the server changed"):
        remote_servers.register(host, "shop", by=admin, **fields, password="")


def test_a_server_that_is_verified_more_keeps_the_password(host: Host, admin: User) -> None:
    remote_servers.register(host, "shop", by=admin, **FIELDS)

    server = remote_servers.register(host, "shop", by=admin, sslmode="verify-full", ca_certificate=PEM, password="")

    assert remote_servers.access(server)["password"] == SECRET


def test_a_client_key_is_removed_with_its_certificate(host: Host, admin: User) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"
    certified = {**FIELDS, "password": "", "client_certificate": PEM, "client_key": key}
    remote_servers.register(host, "shop", by=admin, **certified)

    server = remote_servers.register(host, "shop", by=admin, client_certificate="", password=SECRET)

    access = remote_servers.access(server)
    assert (access["password"], access["certificate"], access["key"]) == (SECRET, "", "")


def test_the_answer_of_a_check_is_dropped_if_the_server_was_changed_meanwhile(
    host: Host, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote_servers.register(host, "shop", by=admin, **FIELDS)

    class Link:
        """An agent that answers after an admin has changed the port."""

        hello: ClassVar = {"busy": None}

        def __init__(self, host: Host) -> None:
            self.host = host

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *raised: object) -> None:
            pass

        def call(self, verb: str, **arguments: Any) -> dict[str, Any]:
            assert arguments["server"]["port"] == 5432
            remote_servers.register(self.host, "shop", by=admin, port=6432, password=SECRET)
            return {"version": "15.4"}

    monkeypatch.setattr(services.ssh, "Link", Link)
    monkeypatch.setattr(services.contact, "record_contact", lambda *arguments: None)

    server = services.query_remote_server(host, "shop", by=admin)

    assert (server.port, server.checked, server.checked_at) == (6432, {}, None)


def test_a_run_that_was_planned_on_other_values_gets_no_secret(host: Host, admin: User) -> None:
    remote_servers.register(host, "shop", by=admin, **FIELDS)
    target = {"kind": "remote_server", **remote_servers.target(host, "shop")}

    remote_servers.register(host, "shop", by=admin, port=6432, password=SECRET)

    with pytest.raises(PlanError, match="port of remote server shop of bench-01 was changed after the plan"):
        remote_servers.access_of_run(host, target)


def test_a_run_that_was_planned_before_the_database_was_allowed_gets_no_secret(host: Host, admin: User) -> None:
    remote_servers.register(host, "shop", by=admin, database="bench", **FIELDS)
    planned = {"kind": "remote_server", **remote_servers.target(host, "shop")}

    remote_servers.register(host, "shop", by=admin, use_database=True)
    allowed = {"kind": "remote_server", **remote_servers.target(host, "shop")}

    assert (allowed["database"], allowed["use_database"]) == ("bench", True) and "use_database" not in planned
    assert remote_servers.access_of_run(host, allowed) is not None
    with pytest.raises(PlanError, match="use_database of remote server shop"):
        remote_servers.access_of_run(host, planned)


def test_page_and_api_register_show_and_remove_it_without_its_secret(host: Host, admin: User) -> None:
    typed = {
        **FIELDS,
        "addresses": "db.example.com",
        "name": "shop",
        "port": "5432",
        "database": "bench",
        "use_database": "on",
    }
    client, url = Client(), reverse("host_detail", args=[host.name])
    client.force_login(admin)

    client.post(reverse("host_action", args=[host.name, "save-remote"]), typed)
    page = client.get(url).content.decode()
    listed = client.get(f"/api/v1/hosts/{host.pk}/remote-servers/")

    assert "db.example.com" in page and "not checked" in page and SECRET not in page
    assert [(each["name"], each["use_database"]) for each in listed.json()] == [
        ("shop", True)
    ] and SECRET not in listed.content.decode()
    client.post(reverse("host_action", args=[host.name, "remove-remote"]), {"name": "shop"})
    assert not RemoteServer.objects.exists()


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.SECRET_SOURCES = references.sources("SOURCES", [f"file:{tmp_path}"], {})
    (tmp_path / "password").write_text(f"{SECRET}\n")
    return tmp_path


def test_a_password_by_reference_is_read_at_each_use(host: Host, admin: User, folder: Path) -> None:
    fields = {**FIELDS, "password": "", "password_from": f"file:{folder}/password"}
    server = remote_servers.register(host, "shop", by=admin, **fields)
    assert remote_servers.access(server)["password"] == SECRET and server.password_encrypted == ""

    (folder / "password").write_text("renewed")

    assert remote_servers.access(server)["password"] == "renewed"
    entry = AuditEntry.objects.get(action="remote_server.add")
    assert entry.after["password"] is True and entry.after["password_from"] == f"file:{folder}/password"
    (folder / "password").unlink()
    with pytest.raises(HostError, match=f"file:{folder}/password: cannot be read: No such file"):
        remote_servers.access(server)


def test_a_client_key_and_its_certificate_are_renewed_together_in_one_file(
    host: Host, admin: User, folder: Path
) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"
    (folder / "client.pem").write_text(key + PEM)
    fields = {**FIELDS, "password": "", "client_key_from": f"file:{folder}/client.pem"}

    server = remote_servers.register(host, "shop", by=admin, **fields)

    access = remote_servers.access(server)
    assert access["key"] == access["certificate"] == (key + PEM).rstrip()


def test_a_reference_does_not_follow_to_another_server_and_gives_way_to_a_password(
    host: Host, admin: User, folder: Path
) -> None:
    fields = {**FIELDS, "password": "", "password_from": f"file:{folder}/password"}
    remote_servers.register(host, "shop", by=admin, **fields)

    with pytest.raises(PlanError, match="required again"):
        remote_servers.register(host, "shop", by=admin, addresses=["evil.example.net"])
    kept = remote_servers.register(host, "shop", by=admin, database="shop")
    assert kept.password_from
    changed = remote_servers.register(host, "shop", by=admin, password="typed")

    assert changed.password_from == "" and remote_servers.access(changed)["password"] == "typed"


def test_an_admin_of_one_team_names_no_secret_of_the_server(host: Host, folder: Path) -> None:
    host.team = Team.objects.create(name="storage")
    host.save()
    lead = make_user(Role.VIEWER)
    host.team.memberships.create(user=lead, role=Role.ADMIN)
    remote_servers.register(host, "own", by=lead, **FIELDS)

    with pytest.raises(RoleError):
        fields = {**FIELDS, "password": "", "password_from": f"file:{folder}/password"}
        remote_servers.register(host, "shop", by=lead, **fields)
    assert not RemoteServer.objects.filter(name="shop").exists()


@pytest.mark.parametrize("reference", ["file:/etc/shadow", "env:PROVING_SECRET_KEY", "file:{folder}/gone"])
def test_a_reference_that_is_not_allowed_or_not_there_is_refused_with_its_field(
    host: Host, admin: User, folder: Path, reference: str
) -> None:
    fields = {**FIELDS, "password": "", "password_from": reference.replace("{folder}", str(folder))}

    with pytest.raises(PlanError) as raised:
        remote_servers.register(host, "shop", by=admin, **fields)

    assert raised.value.subject == "password_from"
