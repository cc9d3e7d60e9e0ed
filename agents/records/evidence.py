"""Files in a run's directory, as the server reads them."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import PlanFailure
from .spool import Job


def inside(job: Job, path: str) -> Path:
    root = Path(os.path.realpath(job.path))
    resolved = Path(os.path.realpath(root / path))
    if root not in resolved.parents:
        raise PlanFailure(f"{path!r} is not a file of run {job.run}", "use a path from the manifest")
    return resolved


def size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except FileNotFoundError:
        return 0


def durable(file: Path, offset: int, limit: int) -> bytes:
    """Bytes that will still be there after a power cut: a reader must never have seen what a recovery then repeats."""
    with file.open("rb") as opened:
        os.fdatasync(opened.fileno())
        opened.seek(offset)
        return opened.read(limit)
