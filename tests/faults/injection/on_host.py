"""Faults on the host of a run: killed processes, a changed clock, output of the login shell."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from embedded import processes

SESSION, RPC = "pg-agent-run", "rpc"
DAY_S = 86_400


class Victim:
    """The host of a stack: what lies in `home`, and the processes of the runs there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.python = home / "python"

    def prepare(self) -> str:
        """An interpreter that greets and whose clock can be set; its path is the host's `python`."""
        text = Path(__file__).with_name("python.py").read_text()
        self.python.write_text(text.replace("{python}", sys.executable, 1))
        self.python.chmod(0o755)
        return str(self.python)

    def set_clock(self, seconds: float) -> None:
        self._put("clock", str(seconds).encode())

    def greet(self, chance: Random) -> None:
        """Any bytes, including the beginning of the magic of frames."""
        self._put("greeting", chance.randbytes(chance.randrange(2000)) + b"\x1b[31m\nPGF\n" + b"\nPG" * 3)

    def fall_silent(self) -> None:
        self._put("greeting", b"")

    def _put(self, name: str, data: bytes) -> None:
        fresh = self.home / f"{name}.new"
        fresh.write_bytes(data)
        fresh.rename(self.home / name)

    def find(self, *names: str) -> list[processes.Process]:
        """Live processes of runs of this host whose name (as /proc/PID/comm has it) is one of these."""
        return [p for p in processes.every() if p.state not in "ZX" and _comm(p.pid) in names and self._ours(p.pid)]

    def connections(self) -> list[processes.Process]:
        """The agents at the other end of the server's connections."""
        return [p for p in processes.every() if p.state not in "ZX" and self._serves(p.pid)]

    def kill(self, *names: str) -> int:
        """SIGKILL, as by the kernel's OOM killer; how many there were."""
        pids = self.find(*names)
        processes.send(pids, signal.SIGKILL)
        return len(pids)

    def log_out(self) -> int:
        """What systemd-logind does to a session that ends, with KillUserProcesses: SIGTERM to all of it."""
        pids = [*self.find(SESSION, "pgbench", "postgres"), *self.connections()]
        processes.send(pids, signal.SIGTERM)
        return len(pids)

    def _ours(self, pid: int) -> bool:
        return any(str(self.home) in word for word in _about(pid))

    def _serves(self, pid: int) -> bool:
        argv = list(_read_nul_separated(f"/proc/{pid}/cmdline"))
        return RPC in argv and any(word.startswith(str(self.home)) for word in argv) and _comm(pid) != SESSION


def _about(pid: int) -> Iterator[str]:
    """Arguments, directory and environment: an agent names its spool, PostgreSQL its data, pgbench its sockets."""
    yield from _read_nul_separated(f"/proc/{pid}/cmdline")
    yield from _read_nul_separated(f"/proc/{pid}/environ")
    try:
        yield os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return  # it ended meanwhile


def _read_nul_separated(file: str) -> Iterable[str]:
    try:
        return Path(file).read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []  # it ended meanwhile


def _comm(pid: int) -> str:
    return next(iter(_read_nul_separated(f"/proc/{pid}/comm")), "").strip()
