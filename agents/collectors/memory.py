"""Memory of the host, from /proc/meminfo."""

from __future__ import annotations

from ..facts import meminfo
from .base import Collector


class Memory(Collector):
    name = "memory"
    help = "Free, cached and dirty memory, huge pages"
    columns = {
        "MemFree": "kB that nobody uses",
        "MemAvailable": "kB that a new process could get",
        "Cached": "kB of page cache",
        "Dirty": "kB waiting to be written to disk",
        "Writeback": "kB being written to disk",
        "AnonHugePages": "kB of anonymous memory in transparent huge pages",
        "HugePages_Free": "pages of the pool that are free",
    }

    def sample(self) -> dict[str, float]:
        info = meminfo(self.system)
        return {name: float(info[name]) for name in self.columns if name in info}
