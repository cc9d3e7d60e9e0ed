"""Which data sets a private cluster holds, and in what state each is: datasets.json beside its data directory.

The file says "preparing" or "dirty" before anything changes, and "pristine" only when all is on disk. The completed
steps of a creation are in the comment of the database, which is written after them or in their transaction.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

from ..host import owned
from ..wire import protocol
from .spool import Record

FILE = "datasets.json"
PREFIX, WORK = "ds_", "_work"


def database_of(fingerprint: str) -> str:
    return PREFIX + fingerprint[:12]


class Shelf:
    """The data sets of one cluster by their fingerprints. Every change is on disk when it returns."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self.all: dict[str, Record] = _load(self._path).get("datasets", {})

    def get(self, fingerprint: str) -> Optional[Record]:
        return self.all.get(fingerprint)

    def put(self, fingerprint: str, **changes: object) -> Record:
        """Add to the record of a data set, or create it."""
        self.all[fingerprint] = {**self.all.get(fingerprint, {}), **changes}
        self._write()
        return self.all[fingerprint]

    def drop(self, fingerprint: str) -> None:
        self.all.pop(fingerprint, None)
        self._write()

    def _write(self) -> None:
        owned.replace(self._path, protocol.canonical({"version": 1, "datasets": self.all}) + b"\n")


def _load(path: Path) -> Record:
    try:
        entries: Record = json.loads(owned.read(path))
    except FileNotFoundError:
        return {}
    return entries


def forget(home: Path) -> None:
    """The cluster is gone, and its data sets with it."""
    owned.remove(home / FILE)
