"""CPU time, memory and I/O of PostgreSQL's processes, by kind, from /proc/PID.

What a process does between the last sample and its end is not seen. Each backend of a large crowd is sampled every few
seconds: single samples are then means of so long.
"""

from __future__ import annotations

from typing import Collection, Optional

from ..host.system import CLOCK_TICKS, PAGE_KB, System
from ..wire.columns import columns
from .base import Collector, NotAvailable, rounded

POSTMASTER, BACKENDS, OTHERS = "postmaster", "client backends", "others"
# The first words of a process's title, after "postgres: " and the cluster's name; all else is a client's backend.
KINDS = ("checkpointer", "background writer", "walwriter", "autovacuum worker", "parallel worker", "io worker")
_REST = (
    "autovacuum launcher", "logical replication", "archiver", "startup", "stats collector", "logger", "walsender",
    "walreceiver", "walsummarizer", "slotsync worker",
)  # fmt: skip
_IO = {"rchar:": "rchar_mb_s", "wchar:": "wchar_mb_s", "read_bytes:": "read_mb_s", "write_bytes:": "write_mb_s"}
# Processes that are read at once, with three open files each. Of more, each is read in turn, by its mean since then.
CROWD = 80
Use = dict[str, float]


class Processes(Collector):
    name = "processes"
    help = "CPU time, memory and disk I/O of PostgreSQL's processes: checkpointer, walwriter, backends and the others"
    needs_postgres = True
    columns = {
        **columns("PostgreSQL's cpu time", "%", {"cpu": "of one CPU, all processes", "<kind>.cpu": "of one CPU"}),
        **columns(
            "PostgreSQL's writes",
            "MB/s",
            {"wchar_mb_s": "passed to the kernel, all processes", "<kind>.wchar_mb_s": "passed to the kernel"},
        ),
        **columns(
            "PostgreSQL's reads",
            "MB/s",
            {
                "rchar_mb_s": "requested from the kernel, all processes",
                "<kind>.rchar_mb_s": "requested from the kernel",
            },
        ),
        **columns(
            "PostgreSQL's page cache made dirty",
            "MB/s",
            {
                "write_mb_s": "all processes",
                "<kind>.write_mb_s": "each write of a page counts, a large folio counts entirely",
            },
        ),
        **columns(
            "PostgreSQL's reads from disks",
            "MB/s",
            {"read_mb_s": "read from disks, all processes", "<kind>.read_mb_s": "read from disks"},
        ),
        **columns(
            "PostgreSQL's memory",
            "kB",
            {
                "rss": "resident, all processes; shared memory counts for each process that touched it",
                "unshared": "private resident memory, all processes",
                "shared": "shared resident memory of the process with the most",
            },
            gauge=True,
        ),
        **columns("PostgreSQL's processes", "processes", {"count": "that live"}, gauge=True),
    }

    def start(self) -> None:
        if self.subject.postmaster is None:
            raise NotAvailable("this run has no PostgreSQL")
        self._children = self.system.reader(f"/proc/{self.subject.postmaster}/task/{self.subject.postmaster}/children")
        self._known, self._at, self._turn = dict[int, Watched](), self.system.mono(), 0
        self._sample_due(self._at)
        for process in self._known.values():
            process.rates = {}  # leave out what it did earlier

    def sample(self) -> dict[str, float]:
        at = self.system.mono()
        self._sample_due(at)
        self._at = at
        values: dict[str, float] = {}
        for process in self._known.values():
            for name, rate in process.rates.items():
                for column in (name, f"{process.kind}.{name}"):
                    values[column] = values.get(column, 0.0) + rate
        values = {name: rounded(value) if value else 0.0 for name, value in values.items()}
        return {**values, **_memory(self._known.values())}

    def _sample_due(self, at: float) -> None:
        """Sample every process of the cluster; the backends of a crowd in turn."""
        pids = self._pids()
        self._known = {pid: self._known.get(pid) or self._begin(pid) for pid in pids}
        turns = -(-len(pids) // CROWD)
        self._turn += 1
        for place, (pid, process) in enumerate(list(self._known.items())):
            due = process.kind != BACKENDS or not process.used or place % turns == self._turn % turns
            if due and not process.sample(at, keep=turns == 1):
                del self._known[pid]

    def _pids(self) -> list[int]:
        postmaster = self.subject.postmaster
        assert postmaster is not None  # noqa: S101 - for the type checker
        children = self._children.text().split()
        return [postmaster, *(map(int, children) if children else self.system.children(postmaster))]

    def _begin(self, pid: int) -> Watched:
        """Read its title once: the kind of a process appears there soon after its start, and never changes."""
        if pid == self.subject.postmaster:
            return Watched(self.system, pid, POSTMASTER, self._at)
        title = self.system.text(f"/proc/{pid}/cmdline")
        kind = kind_of(title) if title.startswith("postgres: ") else OTHERS
        return Watched(self.system, pid, kind, self._at)


class Watched:
    """One process: its kind, its usage since its start, its latest rates, and its memory in kB."""

    def __init__(self, system: System, pid: int, kind: str, born: float) -> None:
        self._system, self._pid, self.kind, self._at = system, pid, kind, born
        self.used, self.rates, self.resident, self.shared = Use(), Use(), 0, 0
        self._cpu, self._io, self._memory = (
            system.reader(f"/proc/{pid}/{name}") for name in ("schedstat", "io", "statm")
        )

    def sample(self, at: float, keep: bool) -> bool:
        """False if it has ended. Its files stay open if `keep`."""
        cpu_s = self._cpu_s()
        if cpu_s is None:
            return False
        used = {"cpu": 100 * cpu_s, **self._done()}
        seconds = max(at - self._at, 1e-3)
        # A process that was born since the previous sample began with nothing.
        self.rates = {name: max(0.0, amount - self.used.get(name, 0.0)) / seconds for name, amount in used.items()}
        self.used, self._at = used, at
        pages = self._memory.text().split() or ("0", "0", "0")
        self.resident, self.shared = int(pages[1]) * PAGE_KB, int(pages[2]) * PAGE_KB
        if not keep:
            for reader in (self._cpu, self._io, self._memory):
                reader.close()
        return True

    def _cpu_s(self) -> Optional[float]:
        """In ns if the scheduler reports that: PostgreSQL's processes have one thread. None if it has ended."""
        fields = self._cpu.text().split()
        if fields and fields[0] != "0":
            return int(fields[0]) / 1e9
        process = self._system.process(self._pid)
        return process.ticks / CLOCK_TICKS if process and process.alive else None

    def _done(self) -> Use:
        """The kernel adds what a dead child did to its parent's; a file that we may not read is empty."""
        fields = self._io.text().split() if self.kind != POSTMASTER else []
        counters = dict(zip(fields[::2], fields[1::2]))
        return {column: int(counters[name]) / 1e6 for name, column in _IO.items() if name in counters}


def kind_of(title: str) -> str:
    """Pure. From a title such as "postgres: main: checkpointer " (cluster_name comes first, where there is one)."""
    name = title[len("postgres: ") :].split("\0")[0]
    for part in (name, name.partition(": ")[2]):
        for kind in (*KINDS, *_REST):
            if part.startswith(kind):
                return kind if kind in KINDS else OTHERS
    return BACKENDS


def _memory(processes: Collection[Watched]) -> dict[str, float]:
    return {
        "rss": float(sum(process.resident for process in processes)),
        "unshared": float(sum(process.resident - process.shared for process in processes)),
        "shared": float(max((process.shared for process in processes), default=0)),
        "count": float(len(processes)),
    }
