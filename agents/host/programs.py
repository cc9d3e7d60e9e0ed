"""Who can change a program. Root executes only what no other account can change."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Optional

from ..errors import HostFailure

# Directories where distributions keep tools that a service account's PATH may lack.
TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOBODY = 65534  # the group of a program that is run as another account
HINT = "let root own the program and the directories above it, and let no group write there"


def owners(path: str) -> Optional[frozenset[int]]:
    """Uids that could change a program: owners of the file and of the directories above it, as named and as
    resolved. None when a group, or everybody, could. OSError if it does not exist."""
    uids = set()
    for place in _above(path) | _above(os.path.realpath(path)):
        about = os.stat(place)
        sticky = stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX
        by_group = about.st_mode & stat.S_IWGRP and about.st_gid != 0
        if not sticky and (by_group or about.st_mode & stat.S_IWOTH):
            return None
        uids.add(about.st_uid)
    return frozenset(uids)


def _above(path: str) -> set[str]:
    """An absolute path and every directory above it."""
    paths = {path}
    while path != (path := os.path.dirname(path)):
        paths.add(path)
    return paths


def check(name: str, trusted: set[int]) -> None:
    """HostFailure if an account other than these can change the program, or if it does not exist."""
    path = name if "/" in name else shutil.which(name, path=os.environ.get("PATH", "") + ":" + TOOL_PATH)
    try:
        able = owners(path or name)
    except OSError as error:
        raise missing(name, error) from error
    if able is None or able - trusted:
        raise HostFailure(f"{path} is not executed, because another account can change it", HINT)


def missing(name: str, error: OSError) -> HostFailure:
    """The failure for a program that cannot be executed."""
    return HostFailure(f"{name} cannot be executed: {error.strerror}", "check that it is installed and executable")
