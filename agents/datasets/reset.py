"""Resets the data of a run that writes to their original state, by the cheapest available means."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import NamedTuple, Sequence

from ..errors import HostFailure
from ..host import owned
from .making import gigabytes

FICLONE = 0x40049409  # linux/fs.h
ROOM = 1.2  # a copy, and what the run writes into it
CLONE_ROOM = 0.2  # a clone shares its blocks until they are written
CLONES = 18  # the first version whose CREATE DATABASE clones files


class Place(NamedTuple):
    """A file system with a part of the data: its path, the size of that part, and its free space, in bytes."""

    path: str
    size: int
    free: int
    clones: bool


class Choice(NamedTuple):
    """`means`: pristine, clone, copy, reinit or keep."""

    means: str
    reason: str


def choose(policy: str, writes: bool, major: int, places: Sequence[Place]) -> Choice:
    """Pure. HostFailure if the policy is "copy", and there is no room for one."""
    if not writes:
        return Choice("pristine", "no step writes")
    if policy == "keep":
        return Choice("keep", "set in the data set: later runs see the changes")
    if policy == "reinit":
        return Choice("reinit", "set in the data set: created again after a run has written")
    if major >= CLONES and all(place.clones for place in places) and not _short(places, CLONE_ROOM):
        return Choice("clone", f"the file system shares blocks, and PostgreSQL {major} clones them")
    short = _short(places, ROOM)
    if not short:
        size = gigabytes(sum(place.size for place in places))
        return Choice("copy", f"copying {size} is faster than creating the data, and there is space")
    if policy == "copy":
        hint = 'free some space, or set the reset policy to "reinit"'
        raise HostFailure(f"{short[0]}", hint)
    return Choice("reinit", f"{short[0]}: the data are created again after this run")


def _short(places: Sequence[Place], factor: float) -> list[str]:
    """Describe what does not fit."""
    return [
        f"a copy needs {gigabytes(place.size * factor)}, but {place.path} has only {gigabytes(place.free)} free"
        for place in places
        if place.free < place.size * factor
    ]


def clones(directory: Path) -> bool:
    """Whether files of this directory can share their blocks: tried, with FICLONE."""
    pair = [directory / ".clone-from", directory / ".clone-to"]
    files = list[int]()
    try:
        for path in pair:
            owned.remove(path)  # of an interrupted trial
            files.append(owned.new_file(path))
        os.write(files[0], b"\0" * 4096)
        fcntl.ioctl(files[1], FICLONE, files[0])
        return True
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    finally:
        for fd in files:
            os.close(fd)
        for path in pair:
            owned.remove(path)
