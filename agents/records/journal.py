"""The journal: what a run changed or started, on disk before it happens, so that any process can restore it.

Entries   write {setting, key, original, wanted, persistence}   applied {of, found}   restored {of, found, conflict, by}
          (persistence "runtime": the value of a kernel file; "persistent": a file's whole text, null for no file;
          in_place: not replaced atomically
          reset_by: the key with which the kernel changes this one, to its own default)
          process {purpose, pid, start, directory}              ended {of}
          undoing {cause}: from now on the files that this key resets have the kernel's values
          scratch {path}                                        removed {of}
          group {path, unit, enabled, others}: a control group  ungrouped {of}
          (enabled: controllers that are switched on for it; others: groups beside it before)
          service {data_dir, was, ...: a cluster of another user, in the state that service.py read}
          database {name}, role {name}: ours, in that cluster   dropped {of}
          restart {}: that cluster is stopped or started by us  stopped {of}: and again, on the way back
          owned {}: its state is restored                       (closes all three)
          remote {addresses, port, ..., identity}: a remote server, see postgres/remote_server/target.py
          schema {name, before}: ours, in the database of that  dropped {of}
          server that an admin allowed; before: its inventory
          parameter {name, scope, original, wanted, before}     reset {of, found, conflict}
          (of that server; original: the value that ALTER SYSTEM had set)
          left {of}: the remote server is restored
          boot {setting, key, original, wanted, version,        booted {of, found, conflicts}: the host has its own line
          release, kernel, way, environment, mark, before,      again. With kept: the boot is left to the next run, see
          facts}                                                recovery/kept_boot.py
          (kernel: the release of the run's; environment: of the loader's variable, or ""; mark: parameter that
          identifies the boot; before: id of the boot that it ended; facts: of the host before it)
          leaving {of, outcome, error, conflicts, extra}: how the run ended, before it restarts the host to restore it
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Iterable, Optional

from ..errors import HostFailure, NotApplied
from ..host import owned
from ..host.system import System
from ..settings.base import Write, current
from .spool import Job, Record, read_log, sync_dir


def present(system: System, entry: Record) -> Optional[str]:
    """What is there now: the value of a kernel file, or the whole text of a persistent one (None: no such file). What
    the kernel resets along may be gone as well: a scheduler takes its parameters with it."""
    runtime = entry["persistence"] == "runtime"
    try:
        return current(system, entry["key"]) if runtime else owned.read(entry["key"]).decode(errors="replace")
    except FileNotFoundError:
        if runtime and "reset_by" not in entry:
            raise
        return None


class Journal:
    """The journal of one job."""

    def __init__(self, job: Job, system: System) -> None:
        self._path, self._system, self.run = job.path / "journal.jsonl", system, job.run
        self.log = job.log("journal.jsonl")
        self.records, self.damaged = read_log(self._path)
        self._intended: dict[tuple[str, str], list[Record]] = {}

    def _append(self, *, durable: bool = True, **body: Any) -> Record:
        record = self.log.append(body, durable=durable)
        self.records.append(record)
        return record

    def unclosed(self, entry: str, closed_by: str) -> list[Record]:
        """Records of a kind that are not closed yet, oldest first."""
        closed = {record["of"] for record in self.records if record["entry"] == closed_by}
        return [record for record in self.records if record["entry"] == entry and record["seq"] not in closed]

    def note(self, entry: str, **body: Any) -> Record:
        return self._append(entry=entry, **body)

    def unfinished(self, entry: str, closed_by: str) -> Optional[Record]:
        """The newest record of a kind that only happens once at a time, while nothing has closed it."""
        records = self.unclosed(entry, closed_by)
        return records[-1] if records else None

    def open_writes(self) -> list[Record]:
        return self.unclosed("write", "restored")

    def open_processes(self) -> list[Record]:
        return self.unclosed("process", "ended")

    @property
    def written(self) -> list[Record]:
        return [record for record in self.records if record["entry"] == "write"]

    def intend(self, writes: Iterable[tuple[str, Write]]) -> None:
        """Put the originals of all (setting, write) on disk, with one wait for it, before the first value changes."""
        for setting, write in writes:
            self._intended[setting, write.key] = self._notes(setting, write)
        self.log.sync()

    def _notes(self, setting: str, write: Write) -> list[Record]:
        """Records of what a write will change, not yet on disk; none when the value is there already."""
        try:
            originals = {key: current(self._system, key) for key in (write.key, *write.also, *write.resets)}
        except OSError as error:
            raise HostFailure(f"{setting}: {error.filename} cannot be read: {error.strerror}") from error
        if originals[write.key] == write.wanted:
            return []
        # Restored after their cause, because restoring that resets them.
        resets = [
            self._note(setting, k, originals[k], originals[k], "runtime", durable=False, reset_by=write.key)
            for k in write.resets
        ]
        # Restored before their cause: the kernel clears the one when the other is written.
        moved = {write.key: write.wanted, **{k: v for k, v in write.also.items() if originals[k] != v}}
        return [*(self._note(setting, k, originals[k], v, "runtime", durable=False) for k, v in moved.items()), *resets]

    def apply(self, setting: str, write: Write) -> Optional[Record]:
        """Write, read back, mark. None when the value is there already; NotApplied when it is not then."""
        if not self._intended.get((setting, write.key)):
            self.intend([(setting, write)])
        entries = self._intended.pop((setting, write.key))
        if not entries:
            return None
        actual = self._write(entries[0], write.wanted, write.settle_s)
        if actual != write.wanted and write.nudge and self._system.exists(write.nudge):
            self._system.write(write.nudge, "1")
            actual = self._write(entries[0], write.wanted, write.settle_s)
        # Marks need not wait for the disk: a power cut ends the kernel whose values they record.
        for entry in entries:
            value = actual if entry is entries[0] else present(self._system, entry)
            self._append(durable=False, entry="applied", of=entry["seq"], found=value)
        if actual != write.wanted:
            raise NotApplied(setting, f"{write.key} = {write.wanted}", actual)
        return {**entries[0], "found": actual}

    def put_file(
        self, setting: str, path: str, content: str, owner: Optional[tuple[int, int]] = None, in_place: bool = False
    ) -> Record:
        """The same for a file of the agent that survives a restart of the host. The journal has its old content.
        `in_place`: on a file system that cannot replace a file atomically, such as FAT."""
        entry = {"key": path, "persistence": "persistent", "owner": owner}
        original = present(self._system, entry)
        more = {"in_place": True} if in_place else {}
        entry = self._note(setting, path, original, content, "persistent", owner=owner, **more)
        actual = self._write(entry, content, 0.0)
        self._append(entry="applied", of=entry["seq"], found=actual)
        if actual != content:
            raise NotApplied(setting, f"the file {path}", "another content")
        return {**entry, "found": actual}

    def _note(
        self, setting: str, key: str, original: Any, value: str, persistence: str, *, durable: bool = True, **more: Any
    ) -> Record:
        # An original is captured once: a second write to the key must not take our own value for it.
        known = [record for record in self.open_writes() if record["key"] == key]
        original = known[0]["original"] if known else original
        body = {"setting": setting, "key": key, "original": original, "wanted": value, "persistence": persistence}
        return self._append(durable=durable, entry="write", **body, **more)

    def _write(self, entry: Record, value: Optional[str], settle_s: float) -> Optional[str]:
        key = entry["key"]
        try:
            if entry["persistence"] == "persistent":
                _replace(key, value, entry.get("owner"), entry.get("in_place", False))
            else:
                self._system.write(key, value or "")
        except OSError as error:
            # Nothing else is known, so the present value of the file counts.
            self._append(entry="refused", key=key, error=str(error))
        return self._settle(entry, value, settle_s)

    def _settle(self, entry: Record, value: Optional[str], settle_s: float) -> Optional[str]:
        deadline = self._system.mono() + settle_s
        actual, steady = present(self._system, entry), 0
        while actual != value and steady < 5 and self._system.mono() < deadline:
            self._system.sleep(0.1)
            again = present(self._system, entry)
            actual, steady = again, steady + 1 if again == actual else 0
        return actual

    def after_restart(self) -> None:
        """Mark what a restart of the host undid by itself: values of a kernel that is gone. Nobody else is blamed for
        what the new one reads."""
        for entry in reversed(self.open_writes()):
            if entry["persistence"] == "runtime" and entry["boot_id"] != self._system.boot_id():
                self._append(entry="restored", of=entry["seq"], found=self._now(entry), conflict=False, by="restart")

    def _now(self, entry: Record) -> Optional[str]:
        try:
            return present(self._system, entry)
        except OSError as error:
            return f"not readable: {error.strerror}"

    def restore(self, persistence: str = "") -> tuple[list[Record], list[str]]:
        """Restore open writes (of one persistence, if given), newest first. Returns (conflicts, which are changes of
        others and stay; what failed)."""
        self.after_restart()
        conflicts, unproven = self._restore(persistence)
        if unproven:
            # Some values go back only after the one that they depend on: the length of a queue with its scheduler.
            more, unproven = self._restore(persistence)
            conflicts += more
        self.log.sync()
        return conflicts, unproven

    def _restore(self, persistence: str) -> tuple[list[Record], list[str]]:
        conflicts, unproven = self._leave_edited_resets(), []
        for entry in reversed(self.open_writes()):
            if persistence not in ("", entry["persistence"]):
                continue
            try:
                actual = self._put_back(entry)
            except OSError as error:
                unproven.append(f"{entry['key']}: {error}")
                continue
            if actual == entry["original"]:
                self._append(durable=False, entry="restored", of=entry["seq"], found=actual, conflict=False)
            elif self._is_ours(entry, actual):
                unproven.append(f"{entry['key']} is {actual}, was {entry['original']}")
            else:
                conflicts.append({**_picked(entry), "found": actual})
                self._append(durable=False, entry="restored", of=entry["seq"], found=actual, conflict=True)
        return conflicts, unproven

    def _put_back(self, entry: Record) -> Optional[str]:
        if entry["persistence"] == "persistent":
            owned.remove(entry["key"] + ".new")  # a replacement that was cut short
        actual = present(self._system, entry)
        if actual == entry["original"] or not self._is_ours(entry, actual):
            return actual
        if any(one.get("reset_by") == entry["key"] for one in self.open_writes()):
            self._append(durable=False, entry="undoing", cause=entry["key"])
        return self._write(entry, entry["original"], 5.0)

    def _leave_edited_resets(self) -> list[Record]:
        """Conflicts: files that the kernel resets along, and that another user has changed since. Call this before the
        cause is restored: afterwards, values of the kernel and of users look the same."""
        conflicts, undoing = [], {record["cause"] for record in self.records if record["entry"] == "undoing"}
        resets = [one for one in self.open_writes() if "reset_by" in one and one["reset_by"] not in undoing]
        for key, reset in {one["key"]: one for one in resets}.items():
            same = [one for one in self.open_writes() if one["key"] == key]
            seqs = [one["seq"] for one in same]
            marks = [record["found"] for record in self.records if record.get("of") in seqs]
            actual = present(self._system, reset)
            if marks and actual not in (reset["original"], *marks, *(one["wanted"] for one in same)):
                conflicts.append({**_picked(same[-1]), "found": actual})
                for seq in seqs:
                    self._append(durable=False, entry="restored", of=seq, found=actual, conflict=True)
        return conflicts

    def _is_ours(self, entry: Record, actual: Optional[str]) -> bool:
        resets = [one for one in self.written if one["key"] == entry["key"] and "reset_by" in one]
        if resets:
            return actual is not None and not self._left_alone(resets[0]["reset_by"])
        applied = [record["found"] for record in self.records if record.get("of") == entry["seq"]]
        if actual in (entry["wanted"], *applied):
            return True
        if entry.get("in_place") and not applied:
            return True  # the power was cut during the write, which leaves any part of it
        # Died between write and mark: the kernel may have come part of the way (huge pages are counted up one by one).
        ends = [
            value for value in (entry["original"], entry["wanted"], actual) if value is not None and value.isdigit()
        ]
        if entry is not self._under_way() or len(ends) < 3:
            return False
        low, high = sorted(map(int, ends[:2]))
        return low <= int(ends[2]) <= high

    def _under_way(self) -> Optional[Record]:
        """The write that has no mark yet; later ones without a mark were only intended."""
        marked = {record["of"] for record in self.records if record["entry"] == "applied"}
        ours = (record for record in self.written if "reset_by" not in record)
        return next((record for record in ours if record["seq"] not in marked), None)

    def _left_alone(self, key: str) -> bool:
        left = {record["of"] for record in self.records if record.get("conflict")}
        return any(entry["key"] == key for entry in self.written if entry["seq"] in left)

    def starting(self, purpose: str, directory: str) -> None:
        """Called in the child between fork and exec: no process of ours exists that is not on record."""
        process = self._system.process(os.getpid())
        start = process.start if process else 0
        self.log.append(
            {"entry": "process", "purpose": purpose, "pid": os.getpid(), "start": start, "directory": directory}
        )

    def join(self, group: str) -> None:
        """Called in the child, too: move it to the control group with this directory."""
        self._system.write(f"{group}/cgroup.procs", "0")

    def reread(self) -> None:
        """Take in what a child wrote by `starting`."""
        self.log.resume()
        self.records, self.damaged = read_log(self._path)

    def making(self, path: str) -> None:
        """A directory or file of the run's own is about to be made."""
        self._append(entry="scratch", path=path)

    def made(self, path: str) -> bool:
        """Whether it is a file or directory of the run's own."""
        return any(entry["path"] == path for entry in self.unclosed("scratch", "removed"))

    def remove_scratch(self) -> None:
        """Remove the run's own files, and its directories with all they hold."""
        for entry in self.unclosed("scratch", "removed"):
            _remove(entry["path"])
            if not os.path.lexists(entry["path"]):
                self._append(entry="removed", of=entry["seq"])

    def ended(self, entry: Record) -> None:
        self._append(entry="ended", of=entry["seq"])


def _remove(path: str) -> None:
    """Entries that cannot be removed stay in the journal, and are tried again."""
    if os.path.isdir(path) and not os.path.islink(path):
        return owned.remove_tree(path, ignore_errors=True)
    with suppress(OSError):
        owned.remove(path)
    return None


def _picked(entry: Record) -> Record:
    return {"key": entry["key"], "original": entry["original"], "ours": entry["wanted"]}


def _replace(path: str, content: Optional[str], owner: Optional[tuple[int, int]], in_place: bool = False) -> None:
    """A file with this content, or none, after a power cut too."""
    if content is not None and not in_place:
        return owned.replace(path, content.encode(), owner)
    owned.remove(path)
    if content is not None:
        # FAT would have an empty file under the new name until it writes the inode.
        owned.create(path, content.encode(), owner)
    return sync_dir(Path(path).parent)
