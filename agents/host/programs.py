"""Who can change a program. Root executes only what no other account can change."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from contextlib import suppress
from functools import lru_cache
from typing import Optional, Sequence

from ..errors import HostFailure

# Directories where distributions keep tools that a service account's PATH may lack.
TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WRAPPERS = ("unshare", "taskset", "numactl")  # which execute the program in their arguments
MOST_LINKS = 40  # as the kernel follows at most
STRANGER = 2_000_000_002  # a uid that runs programs which several accounts can change; it owns nothing
SYSTEM_GROUPS = ("staff", "utmp")  # which distributions let write below /usr/local, and to which no account belongs
MEMBERS_S = 60.0  # for which the members of a group are remembered: listing the accounts of LDAP can take seconds
NOBODY = 65534  # the group of a program that is run as another account
HINT = "let root own the program and the directories above it, and let no other account write there"


def owners(path: str) -> Optional[frozenset[int]]:
    """Uids that could change what an absolute path names: owners of the file, of each link on the way and of all
    directories above them. None when other members of a group, or all accounts, could. OSError if it does not exist."""
    top = os.lstat("/")
    if _is_open_to_others("/", top):
        return None
    uids, place, rest, links = {top.st_uid}, "/", path.split("/")[::-1], 0
    while rest:
        part = rest.pop()
        if part == "..":
            place = os.path.dirname(place)
        if part in ("", ".", ".."):
            continue
        entry = os.path.join(place, part)
        about = os.lstat(entry)
        uids.add(about.st_uid)
        if stat.S_ISLNK(about.st_mode):
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, "too many links in the path", path)
            to = os.readlink(entry)
            place = "/" if to.startswith("/") else place
            rest += to.split("/")[::-1]
        elif _is_open_to_others(entry, about):
            return None
        else:
            place = entry
    return frozenset(uids)


def _is_open_to_others(path: str, about: os.stat_result) -> bool:
    """Whether accounts other than its owner can write a file, or replace entries of a directory."""
    if stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX:
        return False
    if about.st_mode & stat.S_IWOTH:
        return True
    if not about.st_mode & stat.S_IWGRP:
        return False
    minute = time.monotonic() // MEMBERS_S
    return _has_acl(path) or (about.st_gid != 0 and _has_members(about.st_gid, about.st_uid, minute))


@lru_cache(maxsize=64)
def _has_members(gid: int, owner: int, _minute: float) -> bool:
    """Whether accounts other than root and the owner can be in a group. A directory service does not always list whose
    primary group it is, so only the group with the owner's name, or one of the system, can be without members."""
    import grp
    import pwd

    try:
        group, name = grp.getgrgid(gid), pwd.getpwuid(owner).pw_name
    except KeyError:
        return True
    if set(group.gr_mem) - {"root", name} or group.gr_name not in (name, *SYSTEM_GROUPS):
        return True
    return any(entry.pw_gid == gid and entry.pw_uid not in (0, owner) for entry in pwd.getpwall())


def _has_acl(path: str) -> bool:
    """Whether the bits of the group are the mask of an access control list."""
    with suppress(OSError):
        return "system.posix_acl_access" in os.listxattr(path)
    return False


def find(name: str) -> str:
    """The absolute path of a program; `name` itself if it is a path, or is not on the PATH."""
    return name if "/" in name else shutil.which(name, path=os.environ.get("PATH", "") + ":" + TOOL_PATH) or name


def command(argv: Sequence[str]) -> list[str]:
    """A command of root with absolute paths of the programs that WRAPPERS name. HostFailure if another account can
    change one of its programs. Each argument that names a program counts, because a wrapper could execute it."""
    argv = [find(part) if not place or part in WRAPPERS else part for place, part in enumerate(argv)]
    for place, part in enumerate(argv):
        if not place or (part.startswith("/") and os.path.isfile(part) and os.access(part, os.X_OK)):
            check(part, {0})
    return argv


def check(path: str, trusted: set[int]) -> None:
    """HostFailure if an account other than these can change the program, or if it does not exist."""
    try:
        able = owners(path)
    except OSError as error:
        raise missing(path, error) from error
    if able is None or able - trusted:
        raise HostFailure(f"{path} is not executed, because another account can change it", HINT)


def missing(name: str, error: OSError) -> HostFailure:
    """The failure for a program that cannot be executed."""
    return HostFailure(f"{name} cannot be executed: {error.strerror}", "check that it is installed and executable")
