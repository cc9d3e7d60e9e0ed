"""Paths outside of its own directories where a run may write, as allowed by the host's owner.

The spec has the allowed paths, and the host checks itself: names are resolved first, so that no link leads out.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterable

from ..errors import HostFailure, Unplannable
from . import devices, owned

if TYPE_CHECKING:
    from ..run.running import Run

KINDS = ("clusters", "directory", "file", "device")
PATH = r"^/[^\x00-\x20:$`\\;#\"'*?]*$"
# A directory: new files below it. A file: this one, with any content. A device: this one, raw. The directory of the
# host's clusters is a directory that may be made, too: another one that is missing may be a device that is not mounted.
ALLOWED = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": list(KINDS)}, "path": {"type": "string", "pattern": PATH}},
        "required": ["kind", "path"],
        "additionalProperties": False,
    },
}
DIRECTORIES = ("clusters", "directory")
Allowed = list[dict[str, str]]
HINT = "an admin can allow directories, files and devices on the host's page"


@dataclass(frozen=True)
class Named:
    """A path that an option names: a "directory" to make files in, or a "file" (or device) to write."""

    option: str
    path: str
    kind: str


def check(field: str, path: str, kind: str, allowed: Allowed) -> None:
    """Pure. Unplannable for a path whose very name is not below what is allowed; `kind` is "directory" or "file"."""
    if path != os.path.normpath(path):
        raise Unplannable(field, path, "an absolute path without .. and doubled slashes")
    if not any(_covers(entry, entry["path"], path, kind) for entry in allowed):
        raise Unplannable(field, path, _listing(allowed), HINT)


def needed(named: Iterable[Named], allowed: Allowed) -> Allowed:
    """Pure. Return the allowed paths that cover one of these paths."""
    pairs = [(each.path, each.kind) for each in named]
    return [entry for entry in allowed if any(_covers(entry, entry["path"], *each) for each in pairs)]


def _covers(entry: dict[str, str], own: str, path: str, kind: str) -> bool:
    if entry["kind"] in DIRECTORIES:
        return path.startswith(f"{own.rstrip('/')}/") or (kind == "directory" and path == own)
    return kind == "file" and path == own


def _listing(allowed: Allowed) -> str:
    shown = [f"{entry['path']}/..." if entry["kind"] in DIRECTORIES else entry["path"] for entry in allowed]
    return f"allowed on this host: {', '.join(shown) or 'nothing'}"


def directory(path: str, allowed: Allowed) -> str:
    """The real name of an allowed directory to make files in. Unplannable when links lead out of what is allowed."""
    if {"kind": "clusters", "path": path} in allowed:
        owned.make_directories(path)
    real = os.path.realpath(path)
    if not any(_covers(entry, os.path.realpath(entry["path"]), real, "directory") for entry in allowed):
        raise Unplannable("directory", _both(path, real), _listing(allowed), HINT)
    _check_name("directory", real)
    if not os.path.isdir(real):
        raise Unplannable("directory", path, "an existing directory", "create it, owned by the account of the load")
    return real


def claim(run: Run, path: str) -> str:
    """The path by which the load opens a file or device that it may write. A file lies in a directory of the load's own
    beside the named one, because fio unlinks a file before it lays it out: a new file there, or a hard link to an
    existing one, which must have been allowed itself, for it loses what it holds. Both are removed with the run."""
    real = os.path.realpath(path)
    above, name = os.path.split(real)
    room = run.scratch_path(above, f"{name}.files")
    lent = str(room / name)
    if run.journal.made(str(room)) and room.is_dir():
        return lent
    _check_name("filename", real)
    try:
        status = os.stat(real)
    except FileNotFoundError:
        _check_new(run, path, real)
        run.make_scratch(above, f"{name}.files")
        return lent
    kinds = {stat.S_IFREG: "file", stat.S_IFBLK: "device"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "")
    if not kind:
        raise Unplannable("filename", _both(path, real), "a regular file or a block device")
    if not _is_listed(real, kind, run.allowed_paths):
        accepted = f"a new path; or allow this existing {kind} itself, which destroys its contents"
        raise Unplannable("filename", _both(path, real), accepted, HINT)
    if kind == "device":
        return _lend(run, real, status.st_rdev)
    _check_existing(run, path, real)
    run.make_scratch(above, f"{name}.files")
    try:
        owned.link(real, lent)
    except OSError as error:
        raise HostFailure(
            f"no hard link to {real} can be made: {error.strerror}", "allow a directory instead"
        ) from error
    return lent


def _check_name(option: str, real: str) -> None:
    """Unplannable for characters that would add to a job file: links and directories can have any name."""
    if not re.fullmatch(PATH, real):
        raise Unplannable(option, real, "a path without spaces and special characters")


def _check_existing(run: Run, path: str, real: str) -> None:
    devices.check_backing(run.system, real)
    account = run.account
    if not run.system.may_access([real], os.W_OK, account.user, account.group):
        hint = f"change its owner to {account.name}"
        raise Unplannable("filename", path, f"a file that {account.name} may write", hint)


def _lend(run: Run, real: str, number: int) -> str:
    """Return the path by which the load opens the device: a node of the run's own, where the load is another account
    than the agent's. It is removed with the run."""
    node = f"/dev/proving-ground-{run.job.run}-{os.major(number)}-{os.minor(number)}"
    if run.journal.made(node) and os.path.lexists(node):  # a restart removes it
        devices.empty_page_cache(real)
        return node
    claimed = devices.claim(run.system, real)
    run.hold(claimed)
    if os.fstat(claimed).st_rdev != number:
        raise HostFailure(f"{real} was replaced by another device while it was checked")
    if run.account.owner is None:
        return real
    run.journal.making(node)
    try:
        owned.make_device(node, number, run.account.owner)
    except OSError as error:
        hint = "in a container, grant it the capability MKNOD"
        raise HostFailure(f"{run.account.name} gets no access to {real}: {error.strerror}", hint) from error
    return node


def _is_listed(real: str, kind: str, allowed: Allowed) -> bool:
    return any(entry["kind"] == kind and os.path.realpath(entry["path"]) == real for entry in allowed)


def _check_new(run: Run, path: str, real: str) -> None:
    if not any(_covers(each, os.path.realpath(each["path"]), real, "file") for each in run.allowed_paths):
        raise Unplannable("filename", _both(path, real), _listing(run.allowed_paths), HINT)
    if not os.path.isdir(os.path.dirname(real)):
        raise Unplannable("filename", path, "a file in an existing directory", f"make {os.path.dirname(real)}")


def _both(path: str, real: str) -> str:
    return path if path == real else f"{path}, which is {real}"
