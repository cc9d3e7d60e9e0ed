"""Memory of the host: its use (/proc/meminfo), and the kernel's effort to reclaim some (/proc/vmstat)."""

from __future__ import annotations

from ..wire.columns import columns
from .base import Collector, Fields, Rates

# Scanning and stealing are counted by their cause; newer kernels have more (khugepaged, proactive).
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
                "MemFree": "unused",
                "MemAvailable": "available to a new process",
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
                "AnonPages": "private memory of processes",
                "Shmem": "shared memory and tmpfs",
                "PageTables": "page tables of all processes",
                "Slab": "the kernel's caches",
                "SwapFree": "unused swap",
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
                "HugePages_Free": "free pages of the pool",
                "HugePages_Rsvd": "reserved pages of the pool",
            },
            gauge=True,
        ),
        **columns("page faults", "1/s", {"pgfault": "all", "pgmajfault": "that waited for a disk"}),
        **columns(
            "reclaim",
            "pages/s",
            {
                "pswpin": "swapped in",
                "pswpout": "swapped out",
                "pgscan": "scanned to free memory, by kswapd or processes",
                "pgsteal": "freed, by kswapd or processes",
            },
            better="lower",
        ),
        **columns(
            "huge pages made",
            "1/s",
            {
                "thp_fault_alloc": "at a page fault",
                "thp_fault_fallback": "that failed at a page fault",
                "thp_collapse_alloc": "by khugepaged",
                "compact_stall": "processes that first had to compact memory",
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
