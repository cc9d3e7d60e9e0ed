"""This machine as a host that faults strike: runs of the built agent, and what each fault cost. As root."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from agents.build import build_zipapp
from agents.spool import Job, Spool, read_log
from agents.system import Process, System
from embedded.postgres import bin_dir
from tests import remote, snapshot
from tests.agents.driver import Connection
from tests.alone import alone
from tests.faults.cases import sysctl

KNOB = "vm.swappiness"
KNOB_FILE = "/proc/sys/vm/swappiness"
LIMIT_S = 60.0


@dataclass
class Toll:
    """What a fault cost, over all the times that it struck."""

    fault: str
    times: int = 0
    lost: int = 0
    duplicated: int = 0
    overlaps: int = 0
    changed: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = f"{self.times} times, lost {self.lost}, duplicated {self.duplicated}, overlaps {self.overlaps}"
        return f"{self.fault}: {counts}, changed {len(self.changed)}"

    @property
    def nothing(self) -> bool:
        return not (self.lost or self.duplicated or self.overlaps or self.changed)


class Field:
    """A spool, a directory for clusters, and connections to the agent."""

    def __init__(self, root: Path) -> None:
        self.root, self.data_dir, self.system = root, root / "data", System()
        self.data_dir.mkdir(mode=0o755)
        self.spool = Spool(root / "spool", self.system)
        self._program, self._open = root / "agent.pyz", list[Connection]()
        build_zipapp(self._program)

    def connect(self, *under: str) -> Connection:
        """A new connection; `under` is what its interpreter is started with, such as unshare."""
        self._open.append(Connection(self._program, self.spool.root, python=[*under, sys.executable]))
        return self._open[-1]

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    # Runs

    def io(self, seconds: int = 2) -> dict[str, Any]:
        """Another value of a sysctl, and fio for so long."""
        options = {"directory": str(self.data_dir), "rw": "read", "size": "1m", "runtime_s": seconds}
        allowed = [{"kind": "directory", "path": str(self.data_dir)}]
        return self._spec(None, None, {"name": "measure", "kind": "fio", "options": options}, allowed)

    def pgbench(self, seconds: int = 60, **options: Any) -> dict[str, Any]:
        """The same with pgbench on a data set of its own."""
        load = {"builtin": "simple-update", "clients": 2, "time_s": seconds, "progress_s": 1, **options}
        target = {"kind": "private", "bin_dir": str(bin_dir()), "data_dir": str(self.data_dir), "os_user": ""}
        dataset = {"kind": "pgbench", "options": {}, "reset": "reinit"}
        return self._spec(target, dataset, {"name": "measure", "kind": "pgbench", "options": load}, [])

    def _spec(self, target: Any, dataset: Any, step: dict[str, Any], allowed: list[dict[str, str]]) -> dict[str, Any]:
        return {
            "version": 1,
            "target": target,
            "settings": {"sysctl": sysctl(KNOB)("")},
            "dataset": dataset,
            "steps": [step],
            "allowed_paths": allowed,
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
        found: list[int] = []

        def there() -> bool:
            records = read_log(self.job(run).path / "journal.jsonl")[0]
            found[:] = [r["pid"] for r in records if r["entry"] == "process" and r["purpose"] == purpose]
            return bool(found)

        wait(there)
        return found[-1]

    def at_work(self, pid: int) -> list[Process]:
        """Children of a process that live."""
        found = (self.system.process(child) for child in self.system.children(pid))
        return [process for process in found if process and process.alive]

    # What it cost

    def look(self) -> snapshot.Snapshot:
        found = snapshot.take([str(self.data_dir)])
        ours = [str(self.root), *(f"{snapshot.MARK.decode()}{job.run}" for job in self.spool.jobs())]
        rpc = {f"process {connection.process.pid}" for connection in self._open}
        return {
            name: value
            for name, value in found.items()
            if name not in rpc and (not name.startswith("process ") or any(word in value for word in ours))
        }

    def changed(self, before: snapshot.Snapshot, limit_s: float = 10.0) -> dict[str, Any]:
        """What differs, also after a while: somebody else's test may be at work on this machine."""
        deadline = time.monotonic() + limit_s
        while found := snapshot.differences(before, self.look()):
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        return found

    def reckon(self, toll: Toll, run: str, before: snapshot.Snapshot) -> dict[str, Any]:
        """Add what one strike cost; the manifest."""
        job = self.job(run)
        manifest = job.manifest
        assert manifest, job.states()
        events, damaged = read_log(job.path / "events.ndjson")
        seqs = [event["seq"] for event in events]
        toll.times += 1
        toll.lost += manifest["last_seq"] - len(set(seqs)) + damaged
        toll.duplicated += len(seqs) - len(set(seqs))
        toll.overlaps += overlaps(self.spool)
        toll.changed.update(self.changed(before))
        if not manifest["clean"]:
            toll.changed["clean"] = manifest
        return manifest


def overlaps(spool: Spool) -> int:
    """How many pairs of runs were carried out at the same time."""
    lives = []
    for job in spool.jobs():
        states = job.states()
        began = [state["mono"] for state in states if state["state"] == "APPLYING"]
        if began:
            lives.append((began[0], states[-1]["mono"] if job.sealed else spool.system.mono()))
    return sum(a[0] < b[1] and b[0] < a[1] for a, b in combinations(lives, 2))


def wait(done: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def struck() -> Iterator[Field]:
    """A field of one's own, while nobody else changes settings of this machine."""
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
    """Take what is free now."""
    free = os.statvfs(ballast.parent)
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        for _ in range(free.f_bavail):
            file.write(b"x" * free.f_frsize)
