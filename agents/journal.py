"""The journal: what a run changed or started, on disk before it happens, so that anybody can put it back.

Entries   write {setting, key, original, wanted, persistence}   applied {of, found}   restored {of, found, conflict}
          process {purpose, pid, start, directory}              ended {of}
          scratch {path}                                        removed {of}
"""

from __future__ import annotations

import os
import re
import shutil
from typing import Any, Optional

from .errors import HostFailure, NotApplied
from .settings.base import Write
from .spool import Job, Record, read_log
from .system import System

_CHOSEN = re.compile(r"\[([^\]]+)\]")


def current(system: System, key: str) -> str:
    """The value of a kernel file; where it lists choices, the [chosen] one."""
    text = system.read(key).strip()
    chosen = _CHOSEN.search(text)
    return chosen.group(1) if chosen else text


class Journal:
    """The journal of one job."""

    def __init__(self, job: Job, system: System) -> None:
        self._path, self._system = job.path / "journal.jsonl", system
        self.log = job.log("journal.jsonl")
        self.records, self.damaged = read_log(self._path)

    def _append(self, **body: Any) -> Record:
        record = self.log.append(body)
        self.records.append(record)
        return record

    def _open(self, entry: str, closed_by: str) -> list[Record]:
        closed = {record["of"] for record in self.records if record["entry"] == closed_by}
        return [record for record in self.records if record["entry"] == entry and record["seq"] not in closed]

    def open_writes(self) -> list[Record]:
        return self._open("write", "restored")

    def open_processes(self) -> list[Record]:
        return self._open("process", "ended")

    @property
    def written(self) -> list[Record]:
        return [record for record in self.records if record["entry"] == "write"]

    def apply(self, setting: str, write: Write) -> Optional[Record]:
        """Journal, write, read back, mark. None when the value is there already; NotApplied when it is not then."""
        system = self._system
        try:
            original = current(system, write.key)
        except OSError as error:
            raise HostFailure(f"{setting}: {write.key} cannot be read: {error.strerror}") from error
        if original == write.wanted:
            return None
        # An original is captured once: a second write to the key must not take our own value for it.
        known = [record for record in self.open_writes() if record["key"] == write.key]
        entry = self._append(
            entry="write",
            setting=setting,
            key=write.key,
            original=known[0]["original"] if known else original,
            wanted=write.wanted,
            persistence=write.persistence,
        )
        found = self._write(write.key, write.wanted, write.settle_s)
        self._append(entry="applied", of=entry["seq"], found=found)
        if found != write.wanted:
            raise NotApplied(setting, f"{write.key} = {write.wanted}", found)
        return {**entry, "found": found}

    def _write(self, key: str, value: str, settle_s: float) -> str:
        try:
            self._system.write(key, value)
        except OSError as error:
            # Nothing else may be said about it: what the file reads now is the answer.
            self._append(entry="refused", key=key, value=value, error=str(error))
        return self._settle(key, value, settle_s)

    def _settle(self, key: str, value: str, settle_s: float) -> str:
        deadline = self._system.mono() + settle_s
        found, steady = current(self._system, key), 0
        while found != value and steady < 5 and self._system.mono() < deadline:
            self._system.sleep(0.1)
            again = current(self._system, key)
            found, steady = again, steady + 1 if again == found else 0
        return found

    def restore(self) -> tuple[list[Record], list[str]]:
        """Put open writes back, newest first: (conflicts, changed by somebody else and left alone; what failed)."""
        conflicts, unproven = [], []
        for entry in reversed(self.open_writes()):
            try:
                found = self._put_back(entry)
            except OSError as error:
                unproven.append(f"{entry['key']}: {error}")
                continue
            if found == entry["original"]:
                self._append(entry="restored", of=entry["seq"], found=found, conflict=False)
            elif self._is_ours(entry, found):
                unproven.append(f"{entry['key']} is {found}, was {entry['original']}")
            else:
                conflicts.append({**_picked(entry), "found": found})
                self._append(entry="restored", of=entry["seq"], found=found, conflict=True)
        return conflicts, unproven

    def _put_back(self, entry: Record) -> str:
        found = current(self._system, entry["key"])
        if found == entry["original"] or not self._is_ours(entry, found):
            return found
        return self._write(entry["key"], entry["original"], 5.0)

    def _is_ours(self, entry: Record, found: str) -> bool:
        applied = [record["found"] for record in self.records if record.get("of") == entry["seq"]]
        if found in (entry["wanted"], *applied):
            return True
        # Died between write and mark: the kernel may have come part of the way (huge pages are counted up one by one).
        partial = not applied and all(v.isdigit() for v in (found, entry["original"], entry["wanted"]))
        return partial and min(int(entry["original"]), int(entry["wanted"])) <= int(found) <= max(
            int(entry["original"]), int(entry["wanted"])
        )

    def starting(self, purpose: str, directory: str) -> None:
        """Called in the child between fork and exec: no process of ours exists that is not on record."""
        process = self._system.process(os.getpid())
        start = process.start if process else 0
        self.log.append(
            {"entry": "process", "purpose": purpose, "pid": os.getpid(), "start": start, "directory": directory}
        )

    def reread(self) -> None:
        """Take in what a child wrote by `starting`."""
        self.log.resume()
        self.records, self.damaged = read_log(self._path)

    def making(self, path: str) -> None:
        """A directory of the run's own is about to be made."""
        self._append(entry="scratch", path=path)

    def remove_scratch(self) -> None:
        """Remove the run's own directories with all they hold."""
        for entry in self._open("scratch", "removed"):
            shutil.rmtree(entry["path"], ignore_errors=True)
            if not os.path.lexists(entry["path"]):
                self._append(entry="removed", of=entry["seq"])

    def ended(self, entry: Record) -> None:
        self._append(entry="ended", of=entry["seq"])


def _picked(entry: Record) -> Record:
    return {"key": entry["key"], "original": entry["original"], "ours": entry["wanted"]}
