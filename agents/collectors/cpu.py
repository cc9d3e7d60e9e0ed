"""Cpu time, per cpu and over all, and what the scheduler did, from /proc/stat."""

from __future__ import annotations

from ..wire.columns import columns
from .base import Collector, Rates

Times = tuple[int, int, int, int]
COUNTS, GAUGES = ("ctxt", "intr", "processes"), ("procs_running", "procs_blocked")


class Cpu(Collector):
    name = "cpu"
    help = "Busy, user, system and I/O wait share of each CPU; context switches, interrupts, runnable processes"
    columns = {
        **columns(
            "all cpus",
            "%",
            {
                "busy": "of all CPUs, not idle",
                "user": "in user mode, nice included",
                "system": "in the kernel, interrupts and stolen time included",
                "iowait": "idle during I/O",
            },
        ),
        **columns("busy per cpu", "%", {"<cpu>.busy": "of one CPU, not idle"}, shown=True),
        **columns("user mode per cpu", "%", {"<cpu>.user": "of one CPU in user mode"}),
        **columns("kernel mode per cpu", "%", {"<cpu>.system": "of one CPU in the kernel"}),
        **columns("I/O wait per cpu", "%", {"<cpu>.iowait": "of one CPU, idle during I/O"}),
        **columns(
            "switches and interrupts",
            "1/s",
            {"ctxt": "context switches", "intr": "interrupts", "processes": "forks"},
        ),
        **columns(
            "run queue",
            "processes",
            {"procs_running": "running or runnable, the agent included", "procs_blocked": "blocked by I/O"},
            gauge=True,
        ),
    }

    def start(self) -> None:
        self._stat = self.system.reader("/proc/stat")
        text = self._stat.text()
        self._last, self._rates = parse(text), Rates()
        self._rates.of(_pick(_fields(text), COUNTS), self.system.mono())

    def sample(self) -> dict[str, float]:
        text, at = self._stat.text(), self.system.mono()
        now, fields, values = parse(text), _fields(text), dict[str, float]()
        for cpu, times in now.items():
            prefix = "" if cpu == "cpu" else f"{cpu}."
            for name, share in _shares(self._last.get(cpu, times), times).items():
                values[prefix + name] = share
        self._last = now
        return {**values, **self._rates.of(_pick(fields, COUNTS), at), **_pick(fields, GAUGES)}


def parse(text: str) -> dict[str, Times]:
    """{"cpu": (user, system, idle, iowait) in ticks, "cpu0": ...}; steal counts as system: it is not ours to use."""
    times = {}
    for line in text.splitlines():
        if not line.startswith("cpu"):
            break
        name, *fields = line.split()
        user, nice, system, idle, iowait, irq, softirq, steal = (int(f) for f in [*fields, *["0"] * 8][:8])
        times[name] = (user + nice, system + irq + softirq + steal, idle, iowait)
    return times


def _fields(text: str) -> dict[str, str]:
    """The lines after those of the cpus; that of all interrupts has thousands of numbers, the first is their sum."""
    rows = (line.split(" ", 2) for line in text[text.find("\nintr ") + 1 :].splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1}


def _pick(fields: dict[str, str], names: tuple[str, ...]) -> dict[str, float]:
    return {name: float(fields[name]) for name in names if name in fields}


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
