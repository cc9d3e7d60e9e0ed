"""Ends processes that a failed test left running, and has the agent restore the host."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.agents.driver import Connection
from tests.servers.snapshot import MARK

LIMIT_S = 60.0


def processes_of(spool: Path, *directories: Path) -> list[int]:
    """Processes of this spool's runs, and those that work below a directory or name the spool in their arguments."""
    jobs = spool / "jobs"
    marks = [MARK + name.encode() for name in (os.listdir(jobs) if jobs.is_dir() else ())]
    pids = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            cwd, process = os.readlink(f"/proc/{pid}/cwd"), Path(f"/proc/{pid}")
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            below = any(cwd.startswith(f"{directory}/") for directory in (spool, *directories))
            ours = {str(spool).encode()} & {*arguments} or {*marks} & {*(process / "environ").read_bytes().split(b"\0")}
            if pid != os.getpid() and (below or ours):
                pids.append(pid)
    return pids


def end(open_connection: Callable[[], Connection], spool: Path, *directories: Path) -> None:
    """End the runs of a spool. A new contact then restores the settings that they changed."""
    if not processes_of(spool, *directories):
        return
    _kill(spool, *directories)
    connection = open_connection()
    try:
        connection.call("hello")
    finally:
        connection.close()
    _kill(spool, *directories)


def _kill(spool: Path, *directories: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while pids := processes_of(spool, *directories):
        assert time.monotonic() < deadline, pids
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
