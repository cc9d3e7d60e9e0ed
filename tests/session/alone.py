"""Tests that change settings of the whole machine take turns: with other workers, and with other checkouts."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_holding: list[int] = []


@contextmanager
def alone() -> Iterator[None]:
    """No other holder of this lock changes host-wide settings meanwhile. The lock is reentrant."""
    if _holding:
        yield
        return
    file = _lock_file()
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        _holding.append(file)
        yield
    finally:
        _holding.clear()
        os.close(file)


def _lock_file() -> int:
    """Open for reading, which is enough for a lock: in /tmp, users cannot write to files that another user created."""
    path = Path(tempfile.gettempdir()) / "proving-ground-host-wide.lock"
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
