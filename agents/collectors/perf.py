"""What PostgreSQL's processes made the CPUs do, by perf stat on the whole tree: instructions per cycle, cache and TLB
misses, migrations, page faults. Backends that connect later are counted as well, for a child inherits the counters.

Counting costs each context switch some work, so that it is for runs that ask for it. Virtual machines seldom have
hardware counters: those that are missing are named once, and the kernel's own events still count.
"""

from __future__ import annotations

import os
import re
import select
import signal
from typing import Any, Mapping, Optional

from ..wire.columns import columns
from .base import Collector, NotAvailable, rounded

KERNEL = ("context-switches", "cpu-migrations", "page-faults", "major-faults")
HARDWARE = (
    "cycles", "instructions", "dTLB-load-misses", "LLC-load-misses", "node-loads", "node-load-misses",
)  # fmt: skip
IPC = "ipc"
EVERY_MS, PROBE_S, END_S, CHUNK = "1000", 5.0, 2.0, 1 << 16
_MODIFIER = re.compile(r":[a-zA-Z]+$")  # cycles:u where only user mode may be counted
_MOMENT, _COUNT = re.compile(r"\d+\.\d+$"), re.compile(r"\d+(\.\d+)?$|<not (counted|supported)>$")


class Perf(Collector):
    name = "perf"
    help = "Hardware counters of PostgreSQL's processes, by perf stat; each context switch costs more while it counts"
    needs_postgres = True
    late = True
    usual = False
    columns = {
        **columns("instructions per cycle", "IPC", {IPC: "of PostgreSQL's processes"}, better="higher"),
        **columns("cycles", "1/s", {"cycles": "of PostgreSQL's processes", "instructions": "that they completed"}),
        **columns(
            "cache and TLB misses",
            "1/s",
            {
                "dTLB-load-misses": "loads whose page was not in the data TLB",
                "LLC-load-misses": "loads that missed the last cache",
                "node-loads": "loads from memory of any node",
                "node-load-misses": "loads from memory of another node",
            },
            better="lower",
        ),
        **columns(
            "switches and migrations",
            "1/s",
            {"context-switches": "of PostgreSQL's processes", "cpu-migrations": "of theirs, to another cpu"},
        ),
        **columns(
            "page faults of PostgreSQL",
            "1/s",
            {"page-faults": "all", "major-faults": "that had to wait for a disk"},
        ),
    }

    def start(self) -> None:
        if self.subject.postmaster is None or self.subject.attach is None:
            raise NotAvailable("this run has no PostgreSQL")
        program = self.system.which("perf")
        if not program:
            raise NotAvailable("perf is not installed; Debian has it in linux-perf, Red Hat in perf")
        events, missing = self._supported(program)
        if missing:
            self.notes = (f"collector perf: this machine does not count {', '.join(missing)}",)
        pids = [self.subject.postmaster, *self.system.children(self.subject.postmaster)]
        line = [program, "stat", "-x", ";", "-I", EVERY_MS, "--log-fd", "1", "-e", ",".join(events)]
        self._child = self.subject.attach([*line, "-p", ",".join(map(str, pids))], "perf")
        self._events, self._rest, self._at, self._cost = len(events), b"", 0.0, 0.0
        self._intervals: dict[float, dict[str, float]] = {}

    def _supported(self, program: str) -> tuple[list[str], list[str]]:
        """Events that this machine counts for us, and those that it does not."""
        asked = [*KERNEL, *HARDWARE]
        line = [program, "stat", "-x", ";", "--log-fd", "1", "-e", ",".join(asked), "--", "true"]
        told = parse(self.system.run(line, limit_s=PROBE_S).stdout)
        counted = {event for _, event, count in told if count is not None}
        if not counted:
            raise NotAvailable("perf counts nothing here; kernel.perf_event_paranoid may forbid it")
        return [name for name in asked if name in counted], [name for name in asked if name not in counted]

    def sample(self) -> dict[str, float]:
        """Of the intervals that perf has told since the look before; nothing where it has told none."""
        while self._receive():
            pass
        lines, _, self._rest = self._rest.rpartition(b"\n")
        for at, event, count in parse(lines.decode(errors="replace")):
            self._intervals.setdefault(at, {})[event] = count or 0.0
        whole = [at for at, counts in self._intervals.items() if len(counts) == self._events]
        if not whole:
            return {}
        counted = [self._intervals.pop(at) for at in whole]
        seconds, self._at = whole[-1] - self._at, whole[-1]
        return rates({event: sum(each[event] for each in counted) for event in counted[0]}, seconds)

    def _receive(self) -> bool:
        """Whether there was something to read."""
        stdout = self._child.popen.stdout
        assert stdout is not None  # noqa: S101 - for the type checker
        ready = select.poll()
        ready.register(stdout.fileno(), select.POLLIN)
        if not ready.poll(0):
            return False
        data = os.read(stdout.fileno(), CHUNK)
        if not data:
            raise NotAvailable("perf has ended; its stderr is kept with the step")
        self._rest += data
        return True

    def finish(self) -> dict[str, Any]:
        """End perf. What ends a run early ends it as well, for it stands on the journal."""
        self._cost = self.apart_cpu_s()
        self._child.popen.send_signal(signal.SIGINT)
        if self._child.wait(END_S) is None:
            self._child.popen.kill()
            self._child.wait(END_S)
        if self._child.popen.stdout:
            self._child.popen.stdout.close()
        return {}

    def apart_cpu_s(self) -> float:
        return max(self._cost, self.system.cpu_s(self._child.pid))


def parse(text: str) -> list[tuple[float, str, Optional[float]]]:
    """Pure. (seconds since it began, event, count) of lines of `perf stat -x ";"`; 0 s where it was not asked for
    intervals, None for what is not counted. Modifiers such as :u are left out."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(";")]
        at = fields.pop(0) if len(fields) > 3 and _MOMENT.match(fields[0]) and _COUNT.match(fields[1]) else "0"
        if len(fields) > 2 and fields[2] and _COUNT.match(fields[0]):
            count = None if fields[0].startswith("<") else float(fields[0])
            found.append((float(at), _MODIFIER.sub("", fields[2]), count))
    return found


def rates(counts: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Pure. Events a second, and instructions per cycle where both were counted."""
    values = {event: rounded(count / max(seconds, 1e-3)) for event, count in counts.items()}
    if counts.get("cycles") and "instructions" in counts:
        values[IPC] = rounded(counts["instructions"] / counts["cycles"])
    return values
