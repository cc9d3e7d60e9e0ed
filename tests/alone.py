"""Tests that change settings of the whole machine take turns: with other workers, and with other checkouts."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_holding: list[int] = []


@contextmanager
def alone() -> Iterator[None]:
    """Nobody else who asks for this changes host-wide settings meanwhile. Within itself it is nothing."""
    if _holding:
        yield
        return
    with (Path(tempfile.gettempdir()) / "proving-ground-host-wide.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _holding.append(file.fileno())
        try:
            yield
        finally:
            _holding.clear()
