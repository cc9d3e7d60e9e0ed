"""A run, or a recovery, in a forked process that is killed at its n-th boundary.

A boundary lies before and after each thing that a run does to its records and to the host. Which things count is the
test's choice: `around_all` for every record, `around_the_journal` for what a rollback depends on.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.host.loaders import grub, systemd_boot
from agents.host.system import System
from agents.postgres.service import Service
from agents.records import journal
from agents.records.spool import Job, Log, Spool
from agents.rpc import Agent
from agents.run.session import Session
from agents.settings import SETTINGS, Plan, Setting, Write

PAUSE_S = 0.0005
DUE, DONE = 1, 2
SIZE = 1 << 20
HEAD = struct.Struct("=BII")  # state, number of boundaries, bytes of their texts
RUN = "11111111-2222-3333-4444-555555555555"


class Machine(System):
    """The real machine with two kernel values as ordinary files. A file contains its boot ID, for tests of restarts."""

    def __init__(self, boot: Path | None = None) -> None:
        self._boot, self.late_s = boot, 0.0

    def write(self, path: str, text: str) -> None:
        Path(path).write_text(text)

    def level(self) -> str:
        """Whoever runs the tests may turn the knobs."""
        return "root"

    def boot_id(self) -> str:
        return self._boot.read_text() if self._boot else super().boot_id()

    def wall(self) -> float:
        return super().wall() + self.late_s

    def mono(self) -> float:
        return super().mono() + self.late_s

    def reboot(self) -> None:
        """The shutdown's SIGTERM, to a process that is alone in the world."""
        os.kill(os.getpid(), signal.SIGTERM)


class Knobs(Setting):
    name, title, help, risk = "knobs", "Knobs", "Two files", "none"
    schema = {"type": "object"}

    def plan(self, facts: Any, requested: Any) -> Plan:
        return Plan(writes=[Write(path, value) for path, value in sorted(requested.items())])


class Death:
    """Counts boundaries, and kills the agent at the chosen one; 0 never does.

    The count is shared with children: one that was forked to become PostgreSQL writes the journal as well, and goes on
    to become PostgreSQL when its agent is dead. It has given its privileges up by then, so that the test must kill.
    `sparse` leaves out the boundary before an act where the same process stood at the one after another.
    """

    def __init__(self, at: int, *, sparse: bool = False) -> None:
        self.at, self._sparse, self._came = at, sparse, 0
        self._shared, self._due = mmap.mmap(-1, SIZE), -1

    @property
    def trail(self) -> list[str]:
        """What each boundary was, the newest last."""
        _, _, length = HEAD.unpack_from(self._shared)
        return self._shared[HEAD.size : HEAD.size + length].decode().split("\0")[:-1]

    def step(self, where: str) -> None:
        _, count, length = HEAD.unpack_from(self._shared)
        text = where.encode() + b"\0"
        self._shared[HEAD.size + length : HEAD.size + length + len(text)] = text
        is_due = count + 1 == self.at
        HEAD.pack_into(self._shared, 0, DUE if is_due else self._shared[0], count + 1, length + len(text))
        if is_due:
            os.eventfd_write(self._due, 1)
            while self._shared[0] == DUE:
                time.sleep(PAUSE_S)

    def around(self, act: Callable[..., Any], tell: Callable[..., str]) -> Callable[..., Any]:
        """`act` with a boundary before and after it; where `tell` of its arguments is "" there is none."""

        def acted(*args: Any, **kwargs: Any) -> Any:
            what = tell(*args)
            if what and not (self._sparse and self._came == os.getpid()):
                self.step(f"before {what}")
            result = act(*args, **kwargs)
            if what:
                self.step(f"after {what}")
                self._came = os.getpid()
            return result

        return acted

    def of(self, live: Callable[[], None]) -> bool:
        """Whether `live`, in a forked process, was killed; False when it came through."""
        self._due = os.eventfd(0)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                live()
                code = 0
            finally:
                os._exit(code)
        try:
            self._wait(pid)
        finally:
            os.close(self._due)
        if self._shared[0] == DUE:
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        self._shared[0] = DONE
        assert status in (0, signal.SIGKILL), status
        return status != 0

    def _wait(self, pid: int) -> None:
        """Wait until the boundary is reached, or the process has ended."""
        ended, either = os.pidfd_open(pid), select.poll()
        try:
            for descriptor in (self._due, ended):
                either.register(descriptor, select.POLLIN)
            either.poll()
        finally:
            os.close(ended)


def around_all(death: Death) -> None:
    """Every record of any kind, each sealed file, each write to the kernel. Patches: only for a forked process."""
    Log._put = death.around(Log._put, lambda log, line, durable: f"{log._path.name} {line!r}")  # type: ignore[method-assign]
    Machine.write = death.around(Machine.write, lambda *args: f"write {args[1:]}")  # type: ignore[method-assign]
    Job.store = death.around(Job.store, lambda job, name, data: f"replace {name}")  # type: ignore[method-assign]
    _around_what_lasts(death)


def around_the_journal(death: Death) -> None:
    """Every record of the journal, write to the kernel, held device, configuration file and command to a service.
    Patches modules: only for a forked process."""
    Log._put = death.around(  # type: ignore[method-assign]
        Log._put, lambda log, line, durable: _record(line) if log._path.name == "journal.jsonl" else ""
    )
    System.write = death.around(System.write, lambda system, path, text: f"write {text} to {path}")  # type: ignore[method-assign]
    System.hold = death.around(System.hold, lambda system, path, data: f"hold {path}")  # type: ignore[method-assign]
    _around_what_lasts(death)


def _around_what_lasts(death: Death) -> None:
    journal._replace = death.around(journal._replace, lambda path, *rest: f"replace {path}")
    grub._write = death.around(grub._write, lambda path, block: f"write {path}")
    systemd_boot._create = death.around(systemd_boot._create, lambda path, data: f"set {path}")
    systemd_boot._remove = death.around(systemd_boot._remove, lambda path: f"remove {path}")
    Service._command = death.around(Service._command, lambda *args, **rest: f"command {args[1:]}")  # type: ignore[method-assign]


def _record(line: bytes) -> str:
    record = json.loads(line)
    about = record.get("key") or record.get("purpose") or record.get("path") or f"of record {record.get('of')}"
    return f"the record {record['entry']} {about}"


def run(spool: Spool, run: str) -> None:
    """Carry out a submitted run, as the detached process does."""
    lock = spool.lock_host()
    assert lock is not None
    Session(spool, spool.need(run), "test").execute()


def die(mode: str, root: Path, at: int) -> bool:
    """Whether the knobs' run (or restore) was killed at boundary `at`; False when it came through before that.

    Mode "verified" is a run that is killed when all is in effect.
    """
    death, spool = Death(at), Spool(root / "spool", Machine(root / "boot"))

    def live() -> None:
        SETTINGS["knobs"] = Knobs()
        around_all(death)
        if mode == "restore":
            Agent(spool, "test", lambda *ignored: None).restore()
            return
        if mode == "verified":
            Session.enter = _dying_at("VERIFIED", Session.enter)  # type: ignore[method-assign]
        run(spool, RUN)

    return death.of(live)


def _dying_at(last: str, enter: Callable[..., None]) -> Callable[..., None]:
    def entered(self: Session, state: str, **more: Any) -> None:
        if state == last:
            os.kill(os.getpid(), signal.SIGKILL)
        enter(self, state, **more)

    return entered
