"""Allowed paths for workloads: each is one action of an admin with an audit entry, and is checked when a run begins."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, User
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from common.errors import PlanError
from tests.rows import populate
from tests.rows.factories import browser, make_user

SSD = {"path": "/data01", "kind": "directory"}


@pytest.fixture
def host(db: None) -> Host:
    return populate.host()


def test_the_cluster_directory_is_always_allowed(host: Host) -> None:
    assert allowed_paths.of(host) == [{"kind": "clusters", "path": host.data_dir}]
    assert allowed_paths.directories(host) == [host.data_dir]


def test_each_path_is_an_act_that_is_written_down(host: Host, admin: User) -> None:
    allowed_paths.allow(host, "/data01", "directory", by=admin)
    allowed_paths.allow(host, "/dev/disk/by-id/nvme-1", "device", by=admin)
    allowed_paths.withdraw(host, "/data01", by=admin)

    assert allowed_paths.of(host)[1:] == [{"kind": "device", "path": "/dev/disk/by-id/nvme-1"}]
    acts = AuditEntry.objects.filter(action__startswith="path.").order_by("pk")
    assert [(act.action, (act.after or act.before)["path"]) for act in acts] == [
        ("path.allow", "/data01"),
        ("path.allow", "/dev/disk/by-id/nvme-1"),
        ("path.forbid", "/data01"),
    ]
    assert acts[2].before["given_by"] == admin.username


@pytest.mark.parametrize(
    ("path", "kind", "field"),
    [
        ("data01", "directory", "path"),
        ("/data01/../etc", "directory", "path"),
        ("/data01/", "directory", "path"),
        ("//data01", "directory", "path"),
        ("/", "directory", "path"),
        ("/var/lib", "directory", "path"),
        ("/etc/passwd", "file", "path"),
        ("/dev", "directory", "path"),
        ("/dev/sda", "file", "path"),
        ("/data01/image", "device", "path"),
        ("/a:b", "directory", "path"),
        ("/a b", "directory", "path"),
        ("/data01", "everything", "kind"),
    ],
)
def test_a_path_that_allows_too_much_is_refused(host: Host, admin: User, path: str, kind: str, field: str) -> None:
    with pytest.raises(PlanError) as refused:
        allowed_paths.allow(host, path, kind, by=admin)

    assert refused.value.subject == field


def test_a_path_is_allowed_as_one_thing(host: Host, admin: User) -> None:
    allowed_paths.allow(host, **SSD, by=admin)

    with pytest.raises(PlanError, match="is already allowed"):
        allowed_paths.allow(host, "/data01", "file", by=admin)


def test_the_paths_of_a_run_are_checked_when_it_starts(host: Host, admin: User) -> None:
    allowed_paths.allow(host, **SSD, by=admin)
    allowed_paths.check(host, [SSD, {"kind": "clusters", "path": host.data_dir}])
    allowed_paths.withdraw(host, "/data01", by=admin)

    with pytest.raises(PlanError, match="/data01 is no longer allowed"):
        allowed_paths.check(host, [SSD])


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.TUNER])
def test_only_admins_allow(host: Host, role: Role) -> None:
    client = browser(make_user(role))

    assert client.post(f"/api/v1/hosts/{host.pk}/allow-path/", SSD).status_code == 403
    assert client.post(reverse("host_action", args=[host.name, "allow-path"]), SSD).status_code in (302, 403)
    assert not host.allowed_paths.exists()


def test_the_api_reads_and_changes_allowed_paths(host: Host, admin: User) -> None:
    at, client = f"/api/v1/hosts/{host.pk}", browser(admin)

    rows = client.post(f"{at}/allow-path/", SSD).json()

    assert [(row["path"], row["kind"], row["given_by"]) for row in rows] == [
        (host.data_dir, "clusters", None),
        ("/data01", "directory", admin.username),
    ]
    assert client.get(f"{at}/allowed-paths/").json() == rows
    assert len(client.post(f"{at}/forbid-path/", {"path": "/data01"}).json()) == 1
    assert client.post(f"{at}/allow-path/", {"path": "/etc/x", "kind": "file"}).status_code == 400


def test_the_page_shows_where_a_path_lies_and_who_allowed_it(client: Client, host: Host, admin: User) -> None:
    client.force_login(admin)

    client.post(reverse("host_action", args=[host.name, "allow-path"]), SSD)
    page = client.get(reverse("host_detail", args=[host.name])).content.decode()

    assert "/data01" in page and "Revoke" in page and f"{admin.username} <" in page


def test_a_path_is_on_its_nearest_mount() -> None:
    mounts = [("/", "ext4", "/dev/vda1"), ("/data01", "xfs", "/dev/nvme0n1"), ("/data", "nfs4", "store:/x")]
    facts = {"file_systems": [dict(zip(("mounted_on", "type", "device"), mount, strict=True)) for mount in mounts]}

    assert allowed_paths.lies_on(facts, "/data01/clusters") == "xfs on /dev/nvme0n1"
    assert allowed_paths.lies_on(facts, "/data01") == "xfs on /dev/nvme0n1"
    assert allowed_paths.lies_on(facts, "/data012") == "ext4 on /dev/vda1"
    assert allowed_paths.lies_on(facts, "/dev/nvme0n1") == ""
    assert allowed_paths.lies_on({}, "/data01") == ""
