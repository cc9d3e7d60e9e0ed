"""Memory of the host: what it is used for (/proc/meminfo), and what the kernel did to find some (/proc/vmstat)."""

from __future__ import annotations

from ..wire.columns import columns
from .base import Collector, Fields, Rates

# Scanning and stealing are told by who does it; kernels add to the list (khugepaged, proactive).
_SUMS = ("pgscan", "pgsteal")
_ACTORS = ("kswapd", "direct", "khugepaged", "proactive")
_SUMMED = {f"{name}_{actor}" for name in _SUMS for actor in _ACTORS}


class Memory(Collector):
    name = "memory"
    help = "Free, cached and dirty memory, huge pages; page faults, swapping and reclaim"
    columns = {
        **columns(
            "memory",
            "kB",
            {
                "MemFree": "that nobody uses",
                "MemAvailable": "that a new process could get",
                "Cached": "page cache, shared memory included",
                "Dirty": "waiting to be written to disk",
                "Writeback": "being written to disk",
            },
            gauge=True,
            shown=True,
        ),
        **columns(
            "kinds of memory",
            "kB",
            {
                "AnonPages": "of processes' own",
                "Shmem": "shared memory and tmpfs",
                "PageTables": "page tables of all processes",
                "Slab": "the kernel's caches",
                "SwapFree": "swap that nobody uses",
            },
            gauge=True,
        ),
        **columns(
            "transparent huge pages",
            "kB",
            {
                "AnonHugePages": "anonymous memory in transparent huge pages",
                "ShmemHugePages": "shared memory in transparent huge pages",
                "FileHugePages": "page cache in huge pages",
            },
            gauge=True,
        ),
        **columns(
            "huge pages",
            "pages",
            {
                "HugePages_Total": "of the pool, of the default size",
                "HugePages_Free": "of the pool that are free",
                "HugePages_Rsvd": "of the pool that are promised",
            },
            gauge=True,
        ),
        **columns("page faults", "1/s", {"pgfault": "all", "pgmajfault": "that had to wait for a disk"}),
        **columns(
            "reclaim",
            "pages/s",
            {
                "pswpin": "swapped in",
                "pswpout": "swapped out",
                "pgscan": "looked at to free memory, by whomever",
                "pgsteal": "freed, by whomever",
            },
            better="lower",
        ),
        **columns(
            "huge pages made",
            "1/s",
            {
                "thp_fault_alloc": "at a page fault",
                "thp_fault_fallback": "that could not be had at a page fault",
                "thp_collapse_alloc": "by khugepaged",
                "compact_stall": "processes that had to compact memory first",
            },
        ),
        **columns("paging", "kB/s", {"pgpgin": "read from disks", "pgpgout": "written to disks"}),
    }

    def start(self) -> None:
        self._info = Fields(self.system.reader("/proc/meminfo"), self._gauges().__contains__)
        self._stat = Fields(self.system.reader("/proc/vmstat"), _is_counted)
        self._rates = Rates()
        self._rates.of(counts(self._stat.read()), self.system.mono())

    def sample(self) -> dict[str, float]:
        gauges = {name: float(kb) for name, kb in self._info.read().items()}
        return {**gauges, **self._rates.of(counts(self._stat.read()), self.system.mono())}

    @classmethod
    def _gauges(cls) -> set[str]:
        return {name for name, column in cls.columns.items() if column.gauge}


def _is_counted(name: str) -> bool:
    return name in Memory.columns or name in _SUMMED


def counts(vmstat: dict[str, int]) -> dict[str, float]:
    """The counters that are shown: single ones, and scanned and stolen pages summed over who did it."""
    single = {name: float(count) for name, count in vmstat.items() if name in Memory.columns}
    sums = {name: float(sum(vmstat.get(f"{name}_{actor}", 0) for actor in _ACTORS)) for name in _SUMS}
    return {**single, **sums}
