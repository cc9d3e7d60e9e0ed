"""Disk activity from /proc/diskstats: all whole disks together, and the disk of the data directory.

The words are iostat's: aqu_sz is the mean number of requests under way, r_await and w_await what each took in all.
"""

from __future__ import annotations

import os
import re

from ..wire.columns import columns
from .base import Collector

SECTOR = 512  # /proc/diskstats counts these, for each sector size of the disk
# Left out of the total: devices stacked on other disks, and those that are not disks.
_STACKED = re.compile(r"^(loop|ram|zram|dm-|md|sr|fd)\d+")
# reads, sectors read, ms reading, writes, sectors written, ms writing, ms with I/O under way, weighted ms
_FIELDS = (3, 5, 6, 7, 9, 10, 12, 13)
Counters = tuple[int, ...]

_MB, _IOPS, _QUEUE = "disk throughput", "disk operations", "disk queue"
_OWN = "of the data directory's device"


class Disk(Collector):
    name = "disk"
    help = "Throughput, operations, latency, queue and utilisation of all disks, and of the disk with the data"
    columns = {
        **columns(_MB, "MB/s", {"read_mb_s": "read, all disks", "write_mb_s": "written, all disks"}, shown=True),
        **columns(_IOPS, "IOPS", {"read_iops": "reads, all disks", "write_iops": "writes, all disks"}, shown=True),
        **columns(_QUEUE, "requests", {"aqu_sz": "in progress on average, all disks"}),
        **columns(
            "disk latency",
            "ms",
            {"r_await": "of a read, all disks", "w_await": "of a write, all disks"},
            better="lower",
        ),
        **columns("disk utilisation", "%", {"util": "of time with I/O in progress, busiest disk"}),
        **columns(
            f"throughput {_OWN}", "MB/s", {"<device>.read_mb_s": f"read, {_OWN}", "<device>.write_mb_s": "written"}
        ),
        **columns(
            f"operations {_OWN}", "IOPS", {"<device>.read_iops": f"reads, {_OWN}", "<device>.write_iops": "writes"}
        ),
        **columns(f"queue {_OWN}", "requests", {"<device>.aqu_sz": f"in progress on average, {_OWN}"}),
        **columns(
            f"latency {_OWN}",
            "ms",
            {"<device>.r_await": f"of a read, {_OWN}", "<device>.w_await": f"of a write, {_OWN}"},
            better="lower",
        ),
        **columns(f"utilisation {_OWN}", "%", {"<device>.util": f"of time with I/O in progress, {_OWN}"}),
    }

    def start(self) -> None:
        whole = self.system.names("/sys/block")
        self._disks = {name for name in whole if not _STACKED.match(name)}
        directory = self.subject.data_dir
        self._device = self._below(directory.stat().st_dev) if directory.exists() else ""
        self._stats = self.system.reader("/proc/diskstats")
        self._last, self._at = self._read(), self.system.mono()

    def sample(self) -> dict[str, float]:
        now, at = self._read(), self.system.mono()
        grown = {name: _grown(self._last.get(name, counters), counters) for name, counters in now.items()}
        seconds = max(at - self._at, 1e-3)
        self._last, self._at = now, at
        values = _total([grown[name] for name in sorted(self._disks & set(grown))], seconds)
        if self._device in grown:
            own = _rates(grown[self._device], seconds)
            values.update({f"{self._device}.{name}": rate for name, rate in own.items()})
        return values

    def _below(self, device: int) -> str:
        """Kernel name of a device number; "" for file systems without one (tmpfs, overlay, btrfs)."""
        path = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
        return os.path.basename(os.path.realpath(path)) if self.system.exists(path) else ""

    def _read(self) -> dict[str, Counters]:
        return parse(self._stats.text(), self._disks | {self._device})


def parse(text: str, devices: set[str]) -> dict[str, Counters]:
    """{device: (reads, sectors read, ms, writes, sectors written, ms, ms with I/O under way, weighted ms)}."""
    rows = (line.split() for line in text.splitlines())
    return {row[2]: tuple(int(row[i]) for i in _FIELDS) for row in rows if row[2] in devices}


def _grown(before: Counters, after: Counters) -> Counters:
    return tuple(max(0, b - a) for a, b in zip(before, after))


def _rates(grown: Counters, seconds: float) -> dict[str, float]:
    """Latencies only where there was an operation to take any time."""
    reads, read, reading, writes, written, writing, busy, weighted = grown
    rates = {
        "read_mb_s": round(read * SECTOR / 1e6 / seconds, 3),
        "write_mb_s": round(written * SECTOR / 1e6 / seconds, 3),
        "read_iops": round(reads / seconds, 1),
        "write_iops": round(writes / seconds, 1),
        "aqu_sz": round(weighted / 1000 / seconds, 3),
        "util": round(min(100.0, busy / 10 / seconds), 1),
    }
    waits = (("r_await", reading, reads), ("w_await", writing, writes))
    return {**rates, **{name: round(spent / count, 3) for name, spent, count in waits if count}}


def _total(grown: list[Counters], seconds: float) -> dict[str, float]:
    if not grown:
        return {}
    busiest = max(_rates(each, seconds)["util"] for each in grown)
    return {**_rates(tuple(map(sum, zip(*grown))), seconds), "util": busiest}
