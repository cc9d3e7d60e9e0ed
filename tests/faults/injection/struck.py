"""This machine as a host under faults: runs of the built agent, and the counts after each fault. As root."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agents.build import build_zipapp
from agents.host.system import Process, System
from agents.records.spool import Job, Spool, read_log
from embedded.servers.postgres import bin_dir
from tests.agents.driver import Connection
from tests.faults.counts import audit
from tests.faults.counts.ledger import Ledger
from tests.faults.injection.cases import sysctl
from tests.servers import remote, snapshot
from tests.session import leftovers
from tests.session.alone import alone
from tests.session.needs import require

KNOB = "vm.swappiness"
KNOB_FILE = "/proc/sys/vm/swappiness"
LIMIT_S, PATIENCE_S = 60.0, 30.0


class Field:
    """A spool, a directory for clusters, and connections to the agent."""

    def __init__(self, root: Path) -> None:
        self.root, self.data_dir, self.system = root, root / "data", System()
        self.data_dir.mkdir(mode=0o755)
        self.spool = Spool(root / "spool", self.system)
        self.spool.jobs_dir.mkdir(parents=True, mode=0o700)
        self._program, self._open = root / "agent.pyz", list[Connection]()
        build_zipapp(self._program)

    def connect(self, *under: str) -> Connection:
        """A new connection; `under` is what its interpreter is started with, such as unshare."""
        self._open.append(Connection(self._program, self.spool.root, python=[*under, sys.executable]))
        return self._open[-1]

    def close(self) -> None:
        """End the connections, and the runs that a failed test left under way."""
        try:
            for connection in self._open:
                connection.close()
        finally:
            leftovers.end(self.connect, self.spool.root, self.data_dir)

    # Runs

    def idle(self, seconds: int = 2) -> dict[str, Any]:
        """Another value of a sysctl for so long, without a load."""
        return self._spec(None, None, {"name": "measure", "kind": "wait", "options": {"seconds": seconds}})

    def pgbench(self, seconds: int = 60, **options: Any) -> dict[str, Any]:
        """The same with pgbench on a data set of its own."""
        load = {"clients": 2, "time_s": seconds, "progress_s": 1, **(options or {"builtin": "select-only"})}
        target = {"kind": "private", "bin_dir": str(bin_dir()), "data_dir": str(self.data_dir), "os_user": ""}
        dataset = {"kind": "pgbench", "options": {}, "reset": "reinit"}
        return self._spec(target, dataset, {"name": "measure", "kind": "pgbench", "options": load})

    def command(self, program: str, *arguments: str) -> dict[str, Any]:
        """The same with a program of one's own."""
        options = {"program": program, "arguments": "\n".join(arguments)}
        return self._spec(None, None, {"name": "measure", "kind": "command", "options": options})

    def _spec(self, target: Any, dataset: Any, step: dict[str, Any]) -> dict[str, Any]:
        return {
            "version": 1,
            "target": target,
            "settings": {"sysctl": sysctl(KNOB)("")},
            "dataset": dataset,
            "steps": [step],
            "collect": {"interval_s": 0.2, "sources": ["memory"]},
        }

    def job(self, run: str) -> Job:
        return self.spool.need(run)

    def supervisor(self, run: str) -> int:
        """Pid of the process that carries it out."""
        newest = self.job(run).states()[-1]
        assert self.system.is_same(newest["pid"], newest["start"], newest["boot_id"])
        return int(newest["pid"])

    def child(self, run: str, purpose: str) -> int:
        """Pid of the newest process that it started for this purpose, once there is one."""
        pids: list[int] = []

        def there() -> bool:
            records = read_log(self.job(run).path / "journal.jsonl")[0]
            pids[:] = [r["pid"] for r in records if r["entry"] == "process" and r["purpose"] == purpose]
            return bool(pids)

        wait(there)
        return pids[-1]

    def at_work(self, pid: int) -> list[Process]:
        """Children of a process that live."""
        children = (self.system.process(child) for child in self.system.children(pid))
        return [process for process in children if process and process.alive]

    def knob(self) -> str:
        return self.system.text(KNOB_FILE)

    # What it cost

    def take_snapshot(self) -> snapshot.Snapshot:
        state = snapshot.take([str(self.data_dir)])
        ours = [str(self.root), *(f"{snapshot.MARK.decode()}{job.run}" for job in self.spool.jobs())]
        others = {f"process {connection.process.pid}" for connection in self._open}
        return {
            name: value
            for name, value in state.items()
            if name not in others and (not name.startswith("process ") or any(word in value for word in ours))
        }

    def reckon(self, ledger: Ledger, fault: int, before: snapshot.Snapshot, *runs: str) -> None:
        """Count the effects of a fault on these sealed runs, each once."""
        jobs = [self.job(run) for run in runs]
        unclean = [job.run for job in jobs if not (job.manifest or {})["clean"]]
        left = snapshot.left(before, self.take_snapshot, PATIENCE_S)
        ledger.count(fault, len(jobs), audit.of_jobs(jobs), [*left, *unclean])


def wait(done: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def struck() -> Iterator[Field]:
    """A test machine of its own, while no other test changes settings of this machine."""
    require("root")
    with alone(), remote.short_dir() as root:
        root.chmod(0o755)
        here = Field(root)
        try:
            yield here
        finally:
            here.close()


@contextmanager
def small(directory: Path, size: str) -> Iterator[Path]:
    """A file system of this size (as mount spells it) at a directory; a path in it for ballast."""
    directory.mkdir(mode=0o755, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "pg-small", str(directory)]
    subprocess.run(mount, check=True, timeout=30)
    try:
        yield directory / "ballast"
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True, timeout=30)


def fill(ballast: Path) -> None:
    """Fill the free space."""
    free = os.statvfs(ballast.parent)
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        for _ in range(free.f_bavail):
            file.write(b"x" * free.f_frsize)
