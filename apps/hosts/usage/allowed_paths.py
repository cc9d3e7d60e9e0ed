"""Places that workloads may write to besides the cluster directory, as allowed by an admin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from posixpath import normpath
from typing import Any

from django.db import transaction

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.hosts.facts.topology import file_system
from apps.hosts.models import AllowedPath, Host
from common.errors import PlanError

Kind = AllowedPath.Kind
# Directories that cannot be allowed as a whole, because the host depends on them.
NEVER = (
    *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys"),
    *("/usr", "/var", "/var/lib"),
)
INSIDE_NEVER = ("/proc/", "/sys/", "/boot/", "/etc/")


def of(host: Host) -> list[dict[str, str]]:
    """Return the places in the form of a spec: the host's cluster directory, then the allowed ones."""
    allowed = host.allowed_paths.values_list("kind", "path")
    return [{"kind": "clusters", "path": host.data_dir}, *({"kind": kind, "path": path} for kind, path in allowed)]


def directories(host: Host) -> list[str]:
    """Return the directories in which a step may create its own one, the cluster directory first."""
    return [host.data_dir, *host.allowed_paths.filter(kind=Kind.DIRECTORY).values_list("path", flat=True)]


def path_rows(host: Host, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return rows to show: path, what it allows, its file system, and the AllowedPath (None for the cluster
    directory)."""
    own = "directory: clusters, and new files that are removed with the run"
    rows: list[dict[str, Any]] = [{"path": host.data_dir, "kind": "clusters", "what": own, "allowed": None}]
    for allowed in host.allowed_paths.select_related("given_by"):
        rows.append(
            {"path": allowed.path, "kind": allowed.kind, "what": allowed.get_kind_display(), "allowed": allowed}
        )
    return [{**row, "lies_on": lies_on(facts, row["path"])} for row in rows]


def lies_on(facts: Mapping[str, Any], path: str) -> str:
    """Return the file system: "ext4 on /dev/nvme0n1p1"; "" if the facts lack it."""
    mount = None if path.startswith("/dev/") else file_system(facts, path)
    return f"{mount['type']} on {mount['device']}" if mount else ""


def newest_facts(host: Host) -> dict[str, Any]:
    """Return the host's newest facts with its "directories"; {} before the first check."""
    facts = host.facts
    return {**facts, "directories": directories(host)} if facts else {}


@transaction.atomic
def allow(host: Host, path: str, kind: str, *, by: User) -> None:
    """Allow a directory for new files, or one file or device that may be overwritten."""
    require(by, Role.ADMIN, "allow paths", on=host)
    _check(path, kind)
    if host.allowed_paths.filter(path=path).exists():
        raise PlanError("path", f"{path} is already allowed", hint="revoke it first to allow it as another kind")
    allowed = AllowedPath(host=host, path=path, kind=kind, given_by=by)
    save(allowed)
    audit(by, "path.allow", host, after={"path": path, "kind": kind})


def _check(path: str, kind: str) -> None:
    if kind not in Kind.values:
        raise PlanError("kind", f"{kind!r} is not a kind of path", hint="one of " + ", ".join(Kind.values))
    if path != normpath(path) or path.startswith("//"):
        raise PlanError(
            "path", f"{path!r} is not in its shortest form", hint="remove .., doubled slashes and a trailing /"
        )
    system = path in NEVER or path.startswith(INSIDE_NEVER)
    if system or (path.startswith("/dev/") and kind != Kind.DEVICE and not path.startswith("/dev/shm/")):  # noqa: S108
        raise PlanError("path", f"{path} belongs to the system", hint="use a separate directory on the storage to test")
    if kind == Kind.DEVICE and not path.startswith("/dev/"):
        raise PlanError(
            "path", f"{path} is not a device", hint="accepted: a stable name such as /dev/disk/by-id/nvme-..."
        )


@transaction.atomic
def withdraw(host: Host, path: str, *, by: User) -> None:
    """Withdraw a permission now. Queued runs that were planned with it fail when they start."""
    require(by, Role.ADMIN, "forbid paths", on=host)
    allowed = host.allowed_paths.select_related("given_by").filter(path=path).first()
    if allowed is None:
        raise PlanError("path", f"{path!r} is not allowed on {host}")
    audit(by, "path.forbid", host, before={"path": path, "kind": allowed.kind, "given_by": str(allowed.given_by)})
    allowed.delete()


def check(host: Host, planned: Iterable[Mapping[str, str]]) -> None:
    """Raise PlanError if a place in a spec is no longer allowed."""
    allowed = of(host)
    for place in planned:
        if place not in allowed:
            hint = "an admin can allow it on the host's page; then start the campaign again"
            raise PlanError("allowed_paths", f"{place['path']} is no longer allowed on {host}", hint=hint)
