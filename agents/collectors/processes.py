"""What PostgreSQL's own processes used, by kind, from /proc/PID: cpu time, memory and I/O.

What a process does between the last look and its end is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..system import CLOCK_TICKS, PAGE_KB
from .base import Collector, NotAvailable, columns, fields_of

POSTMASTER, BACKENDS, OTHERS = "postmaster", "client backends", "others"
# The first words of a process's title, after "postgres: " and the cluster's name; all else is a client's backend.
KINDS = ("checkpointer", "background writer", "walwriter", "autovacuum worker", "parallel worker", "io worker")
_REST = (
    "autovacuum launcher", "logical replication", "archiver", "startup", "stats collector", "logger", "walsender",
    "walreceiver", "walsummarizer", "slotsync worker",
)  # fmt: skip
_IO = {"rchar": "rchar_mb_s", "wchar": "wchar_mb_s", "read_bytes": "read_mb_s", "write_bytes": "write_mb_s"}
Use = dict[str, float]


class Processes(Collector):
    name = "processes"
    help = "Cpu time, memory and disk I/O of PostgreSQL's processes: checkpointer, walwriter, backends and the others"
    needs_postgres = True
    columns = {
        **columns("PostgreSQL's cpu time", "%", {"cpu": "of one cpu, all processes", "<kind>.cpu": "of one cpu"}),
        **columns(
            "PostgreSQL's writes",
            "MB/s",
            {"wchar_mb_s": "handed to the kernel, all processes", "<kind>.wchar_mb_s": "handed to the kernel"},
        ),
        **columns(
            "PostgreSQL's reads",
            "MB/s",
            {"rchar_mb_s": "asked of the kernel, all processes", "<kind>.rchar_mb_s": "asked of the kernel"},
        ),
        **columns(
            "PostgreSQL's page cache made dirty",
            "MB/s",
            {"write_mb_s": "all processes", "<kind>.write_mb_s": "a page counts each time, a large folio whole"},
        ),
        **columns(
            "PostgreSQL's reads from disks",
            "MB/s",
            {"read_mb_s": "fetched from disks, all processes", "<kind>.read_mb_s": "fetched from disks"},
        ),
        **columns(
            "PostgreSQL's memory",
            "kB",
            {
                "rss": "resident, all processes, shared memory counted for each that touched it",
                "unshared": "resident and of their own, all processes",
                "shared": "resident and shared, of the process that has most",
            },
            gauge=True,
        ),
        **columns("PostgreSQL's processes", "processes", {"count": "that live"}, gauge=True),
    }

    def start(self) -> None:
        if self.subject.postmaster is None:
            raise NotAvailable("this run has no PostgreSQL")
        self._kinds = dict[tuple[int, int], str]()
        self._last, self._at = dict[tuple[int, int], Use](), self.system.mono()
        self._last = {key: look.use for key, look in self._look().items()}

    def sample(self) -> dict[str, float]:
        looks, at = self._look(), self.system.mono()
        grown = {key: self._grown(key, look) for key, look in looks.items()}
        seconds = max(at - self._at, 1e-3)
        self._last, self._at = {key: look.use for key, look in looks.items()}, at
        values: dict[str, float] = {}
        for key, use in grown.items():
            for name, growth in use.items():
                for column in (name, f"{looks[key].kind}.{name}"):
                    values[column] = values.get(column, 0.0) + growth / seconds
        values = {name: round(value, 4) for name, value in values.items()}
        return {**values, **_memory(list(looks.values()))}

    def _grown(self, key: tuple[int, int], look: Look) -> Use:
        """Since the look before; a process that was born since began with nothing."""
        before = self._last.get(key, {})
        return {name: max(0.0, amount - before.get(name, 0.0)) for name, amount in look.use.items()}

    def _look(self) -> dict[tuple[int, int], Look]:
        """{(pid, start): what it used so far}."""
        postmaster = self.subject.postmaster
        assert postmaster is not None  # noqa: S101 - for the type checker
        found = {}
        for pid in (postmaster, *self.system.children(postmaster)):
            process = self.system.process(pid)
            if process and process.alive:
                key = (pid, process.start)
                found[key] = self._use(pid, self._kind(key), process.ticks)
        return found

    def _use(self, pid: int, kind: str, ticks: int) -> Look:
        # The kernel adds what a dead child did to its parent's; a file that we may not read is empty.
        done = fields_of(self.system.text(f"/proc/{pid}/io")) if kind != POSTMASTER else {}
        use = {column: done[name] / 1e6 for name, column in _IO.items() if name in done}
        use["cpu"] = ticks * 100 / CLOCK_TICKS
        pages = self.system.text(f"/proc/{pid}/statm", "0 0 0").split()
        return Look(kind, use, int(pages[1]) * PAGE_KB, int(pages[2]) * PAGE_KB)

    def _kind(self, key: tuple[int, int]) -> str:
        """Its title is read once: it says what the process is soon after its birth, and that never changes."""
        if key not in self._kinds:
            if key[0] == self.subject.postmaster:
                self._kinds[key] = POSTMASTER
                return POSTMASTER
            title = self.system.text(f"/proc/{key[0]}/cmdline")
            if not title.startswith("postgres: "):
                return OTHERS
            self._kinds[key] = kind_of(title)
        return self._kinds[key]


@dataclass(frozen=True)
class Look:
    """One process: what it is, what it used since its birth, and its memory in kB."""

    kind: str
    use: Use
    resident: int
    shared: int


def kind_of(title: str) -> str:
    """Pure. From a title such as "postgres: main: checkpointer " (cluster_name comes first, where there is one)."""
    words = title[len("postgres: ") :].split("\0")[0]
    for part in (words, words.partition(": ")[2]):
        for kind in (*KINDS, *_REST):
            if part.startswith(kind):
                return kind if kind in KINDS else OTHERS
    return BACKENDS


def _memory(looks: list[Look]) -> dict[str, float]:
    return {
        "rss": float(sum(look.resident for look in looks)),
        "unshared": float(sum(look.resident - look.shared for look in looks)),
        "shared": float(max((look.shared for look in looks), default=0)),
        "count": float(len(looks)),
    }
