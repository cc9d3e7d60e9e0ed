"""A run, or a recovery, in a forked process that is killed at its n-th boundary.

A boundary lies before and after each record, each sealed file, each write to the kernel or to a file of
configuration, and each command to a service.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents import journal, recover
from agents.rpc import Agent
from agents.service import Service
from agents.session import Session
from agents.settings import SETTINGS, Plan, Setting, Write
from agents.spool import Log, Spool
from agents.system import System

RUN = "11111111-2222-3333-4444-555555555555"


class Machine(System):
    """The real one, whose two knobs are ordinary files. Its boot is told by a file, for the sake of restarts."""

    def __init__(self, boot: Path | None = None) -> None:
        self._boot, self.late_s = boot, 0.0

    def write(self, path: str, text: str) -> None:
        Path(path).write_text(text)

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

    def plan(self, facts: Any, wanted: Any) -> Plan:
        return Plan(writes=[Write(path, value) for path, value in sorted(wanted.items())])


class Death:
    """Counts boundaries, and kills at the chosen one."""

    def __init__(self, at: int) -> None:
        self.left = at

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def acted(*args: Any, **kwargs: Any) -> Any:
            self.step()
            result = act(*args, **kwargs)
            self.step()
            return result

        return acted


def die(mode: str, root: Path, at: int) -> bool:
    """Whether the forked run (or restore) was killed at boundary `at`; False when it came through before that.

    Mode "verified" is a run that is killed when all is in effect.
    """
    pid = os.fork()
    if not pid:
        code = 1
        try:
            _live(mode, root, at)
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0


def _live(mode: str, root: Path, at: int) -> None:
    SETTINGS["knobs"] = Knobs()
    death = Death(at)
    Log._put = death.around(Log._put)  # type: ignore[method-assign]
    Machine.write = death.around(Machine.write)  # type: ignore[method-assign]
    recover.replace = death.around(recover.replace)  # type: ignore[attr-defined]
    journal._replace = death.around(journal._replace)
    Service._command = death.around(Service._command)  # type: ignore[method-assign]
    spool = Spool(root / "spool", Machine(root / "boot"))
    if mode == "restore":
        Agent(spool, "test", lambda *ignored: None).restore()
        return
    if mode == "verified":
        Session._enter = _dying_at("VERIFIED", Session._enter)  # type: ignore[method-assign]
    lock = spool.lock_host()
    assert lock is not None
    Session(spool, spool.need(RUN), "test").execute()


def _dying_at(last: str, enter: Callable[..., None]) -> Callable[..., None]:
    def entered(self: Session, state: str) -> None:
        if state == last:
            os.kill(os.getpid(), signal.SIGKILL)
        enter(self, state)

    return entered
