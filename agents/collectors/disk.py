"""What disks did, from /proc/diskstats: all whole disks together, and the one under the data directory."""

from __future__ import annotations

import os
import re

from .base import Collector

SECTOR = 512  # /proc/diskstats counts these, whatever the disk's own are
# Not counted in the total: stacked on the disks below them, or no disks at all.
_STACKED = re.compile(r"^(loop|ram|zram|dm-|md|sr|fd)\d+")
Counters = tuple[int, int, int, int, int]


class Disk(Collector):
    name = "disk"
    help = "Throughput, operations and utilisation of all disks, and of the one that holds the data directory"
    columns = {
        "read_mb_s": "MB/s read, all disks",
        "write_mb_s": "MB/s written, all disks",
        "read_iops": "reads/s, all disks",
        "write_iops": "writes/s, all disks",
        "util": "% of time with I/O under way, busiest disk",
        "DEVICE.read_mb_s": "MB/s read from the data directory's device",
        "DEVICE.write_mb_s": "MB/s written to it",
        "DEVICE.read_iops": "reads/s of it",
        "DEVICE.write_iops": "writes/s of it",
        "DEVICE.util": "% of time with I/O under way on it",
    }

    def start(self) -> None:
        whole = self.system.names("/sys/block")
        self._disks = {name for name in whole if not _STACKED.match(name)}
        self._device = self._below(self.data_dir.stat().st_dev) if self.data_dir.exists() else ""
        self._last, self._at = self._read(), self.system.mono()

    def sample(self) -> dict[str, float]:
        now, at = self._read(), self.system.mono()
        rates = {
            name: _rates(self._last.get(name, counters), counters, at - self._at) for name, counters in now.items()
        }
        self._last, self._at = now, at
        values = _total([rates[name] for name in sorted(self._disks & set(rates))])
        for name, rate in rates.get(self._device, {}).items():
            values[f"{self._device}.{name}"] = rate
        return values

    def _below(self, device: int) -> str:
        """Kernel name of a device number; "" for file systems without one (tmpfs, overlay, btrfs)."""
        path = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
        return os.path.basename(os.path.realpath(path)) if self.system.exists(path) else ""

    def _read(self) -> dict[str, Counters]:
        return parse(self.system.text("/proc/diskstats"), self._disks | {self._device})


def parse(text: str, wanted: set[str]) -> dict[str, Counters]:
    """{device: (reads, sectors read, writes, sectors written, ms with I/O under way)}."""
    found = {}
    for line in text.splitlines():
        f = line.split()
        if f[2] in wanted:
            found[f[2]] = (int(f[3]), int(f[5]), int(f[7]), int(f[9]), int(f[12]))
    return found


def _rates(before: Counters, after: Counters, seconds: float) -> dict[str, float]:
    per_s = [max(0, b - a) / max(seconds, 1e-3) for a, b in zip(before, after)]
    return {
        "read_mb_s": round(per_s[1] * SECTOR / 1e6, 3),
        "write_mb_s": round(per_s[3] * SECTOR / 1e6, 3),
        "read_iops": round(per_s[0], 1),
        "write_iops": round(per_s[2], 1),
        "util": round(min(100.0, per_s[4] / 10), 1),
    }


def _total(rates: list[dict[str, float]]) -> dict[str, float]:
    if not rates:
        return {}
    total = {name: round(sum(rate[name] for rate in rates), 3) for name in rates[0]}
    return {**total, "util": max(rate["util"] for rate in rates)}
