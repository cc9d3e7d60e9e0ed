"""Tests that change settings of the whole machine take turns: with other workers, and with other checkouts."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone() -> Iterator[None]:
    """Nobody else who asks for this changes host-wide settings meanwhile."""
    with (Path(tempfile.gettempdir()) / "proving-ground-host-wide.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
