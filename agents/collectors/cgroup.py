"""The control group with which a run limits PostgreSQL: its memory, throttled time and I/O."""

from __future__ import annotations

from typing import Any

from ..host.cgroups import fields, figures, io_stat
from ..wire.columns import columns
from .base import Collector, NotAvailable, Rates

_IO = {"rbytes": "read_mb_s", "wbytes": "write_mb_s", "rios": "reads", "wios": "writes"}


class Cgroup(Collector):
    name = "cgroup"
    help = "Memory, throttled CPU time and I/O of PostgreSQL's control group, where a run has limits"
    needs_group = True
    columns = {
        **columns(
            "memory of the control group",
            "kB",
            {"memory": "of PostgreSQL with its page cache", "swap": "swapped out"},
            gauge=True,
            shown=True,
        ),
        **columns(
            "limits of memory that took effect",
            "per second",
            {"high": "above memory_high", "max": "at memory_max", "oom_kill": "processes killed: out of memory"},
            better="lower",
        ),
        **columns("CPU time of the control group", "%", {"cpu": "of one CPU"}),
        **columns(
            "throttled by the limit of CPU time",
            "%",
            {"throttled": "of the periods of 100 ms", "waiting": "of one CPU, time for which tasks were held back"},
            better="lower",
            shown=True,
        ),
        **columns("I/O of the control group", "MB/s", {"read_mb_s": "read", "write_mb_s": "written"}),
        **columns("requests of the control group", "per second", {"reads": "reads", "writes": "writes"}),
    }

    def start(self) -> None:
        if not self.subject.group:
            raise NotAvailable("this run has no control group")
        names = ("memory.current", "memory.swap.current", "memory.events", "cpu.stat", "io.stat")
        self._files = {name: self.system.reader(f"{self.subject.group}/{name}") for name in names}
        self._rates, self._periods = Rates(), (0, 0)
        self.sample()

    def sample(self) -> dict[str, float]:
        texts = {name: reader.text() for name, reader in self._files.items()}
        cpu, events = fields(texts["cpu.stat"]), fields(texts["memory.events"])
        counts: dict[str, float] = {name: events[name] for name in ("high", "max", "oom_kill") if name in events}
        # 10,000 microseconds per second are 1 % of one CPU.
        times = {"usage_usec": "cpu", "throttled_usec": "waiting"}
        counts |= {column: cpu[name] / 1e4 for name, column in times.items() if name in cpu}
        for device in io_stat(texts["io.stat"]).values():
            for name, column in _IO.items():
                unit = 1e6 if name.endswith("bytes") else 1
                counts[column] = counts.get(column, 0.0) + device.get(name, 0) / unit
        sizes = {"memory": texts["memory.current"].strip(), "swap": texts["memory.swap.current"].strip()}
        gauges = {column: int(text) / 1024 for column, text in sizes.items() if text.isdigit()}
        return {**gauges, **self._rates.of(counts, self.system.mono()), **self._throttled(cpu)}

    def _throttled(self, cpu: dict[str, int]) -> dict[str, float]:
        """Share of the periods since the last sample in which the group had used up its time."""
        if "nr_periods" not in cpu:
            return {}
        (periods, throttled), self._periods = self._periods, (cpu["nr_periods"], cpu["nr_throttled"])
        passed = cpu["nr_periods"] - periods
        return {"throttled": round((cpu["nr_throttled"] - throttled) * 100 / passed, 2) if passed else 0.0}

    def finish(self) -> dict[str, Any]:
        """Totals since the group was created."""
        return figures(self.system, self.subject.group)
