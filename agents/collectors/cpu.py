"""Cpu time, per cpu and over all, from /proc/stat."""

from __future__ import annotations

from .base import Collector

Times = tuple[int, int, int, int]


class Cpu(Collector):
    name = "cpu"
    help = "Busy, user, system and I/O wait share of each cpu"
    columns = {
        "busy": "% of all cpus not idle",
        "user": "% in user mode, nice included",
        "system": "% in the kernel, interrupts included",
        "iowait": "% idle while I/O was under way",
        "cpuN.busy": "% of cpu N not idle",
        "cpuN.user": "% of cpu N in user mode",
        "cpuN.system": "% of cpu N in the kernel",
        "cpuN.iowait": "% of cpu N idle while I/O was under way",
    }

    def start(self) -> None:
        self._last = self._read()

    def sample(self) -> dict[str, float]:
        now, values = self._read(), {}
        for cpu, times in now.items():
            prefix = "" if cpu == "cpu" else f"{cpu}."
            for name, share in _shares(self._last.get(cpu, times), times).items():
                values[prefix + name] = share
        self._last = now
        return values

    def _read(self) -> dict[str, Times]:
        return parse(self.system.text("/proc/stat"))


def parse(text: str) -> dict[str, Times]:
    """{"cpu": (user, system, idle, iowait) in ticks, "cpu0": ...}; steal counts as system: it is not ours to use."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("cpu"):
            break
        name, *fields = line.split()
        user, nice, system, idle, iowait, irq, softirq, steal = (int(f) for f in [*fields, *["0"] * 8][:8])
        found[name] = (user + nice, system + irq + softirq + steal, idle, iowait)
    return found


def _shares(before: Times, after: Times) -> dict[str, float]:
    user, system, idle, iowait = (max(0, b - a) for a, b in zip(before, after))
    total = user + system + idle + iowait
    if not total:
        return {}
    percent = 100.0 / total
    return {
        "busy": round((user + system) * percent, 2),
        "user": round(user * percent, 2),
        "system": round(system * percent, 2),
        "iowait": round(iowait * percent, 2),
    }
