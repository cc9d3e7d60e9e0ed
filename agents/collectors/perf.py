"""Hardware and kernel counters of all PostgreSQL processes, by perf stat: instructions per cycle, cache and TLB misses,
migrations, page faults. Backends that connect later are included: a child inherits the counters.

Counting makes context switches slower, so only runs that name this collector have it. Virtual machines often lack
hardware counters: the log names the missing ones once, and the kernel's events are counted nevertheless.
"""

from __future__ import annotations

import os
import re
import select
import signal
from typing import Any, Mapping, Optional

from ..wire.columns import columns
from .base import Collector, NotAvailable, rounded

_SWITCHES = {"context-switches": "of PostgreSQL's processes", "cpu-migrations": "of these processes, to another CPU"}
_FAULTS = {"page-faults": "all", "major-faults": "that waited for a disk"}
_CYCLES = {"cycles": "of PostgreSQL's processes", "instructions": "completed"}
_MISSES = {
    "dTLB-load-misses": "loads whose page was not in the data TLB",
    "LLC-load-misses": "loads that missed the last-level cache",
    "node-loads": "loads from memory of any node",
    "node-load-misses": "loads from memory of another node",
}
KERNEL, HARDWARE = (*_SWITCHES, *_FAULTS), (*_CYCLES, *_MISSES)
IPC = "ipc"
EVERY_MS, PROBE_S, START_S, END_S, CHUNK = "1000", 5.0, 10.0, 2.0, 1 << 16
_MODIFIER = re.compile(r":[a-zA-Z]+$")  # as in cycles:u, where perf may count user mode only
_MOMENT, _COUNT = re.compile(r"\d+\.\d+$"), re.compile(r"\d+(\.\d+)?$|<not (counted|supported)>$")


class Perf(Collector):
    name = "perf"
    help = "Hardware counters of PostgreSQL's processes, by perf stat; slows down each context switch"
    needs_postgres = True
    late = True
    usual = False
    slow_start = True
    columns = {
        **columns("instructions per cycle", "IPC", {IPC: "of PostgreSQL's processes"}, better="higher"),
        **columns("cycles", "1/s", _CYCLES),
        **columns("cache and TLB misses", "1/s", _MISSES, better="lower"),
        **columns("switches and migrations", "1/s", _SWITCHES),
        **columns("page faults of PostgreSQL", "1/s", _FAULTS),
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
        self._wait_until_it_counts()

    def _wait_until_it_counts(self) -> None:
        """Wait for the first interval: backends that connect before perf has attached do not inherit its counters."""
        if not self._is_readable(START_S):
            self.finish()
            raise NotAvailable(f"perf did not start counting within {START_S:g} s")

    def _supported(self, program: str) -> tuple[list[str], list[str]]:
        """Events that perf can count on this machine, and those that it cannot."""
        events = [*KERNEL, *HARDWARE]
        line = [program, "stat", "-x", ";", "--log-fd", "1", "-e", ",".join(events), "--", "true"]
        trial = parse(self.system.run(line, limit_s=PROBE_S).stdout)
        counted = {event for _, event, count in trial if count is not None}
        if not counted:
            raise NotAvailable("perf counts no events here; kernel.perf_event_paranoid may forbid it")
        return [name for name in events if name in counted], [name for name in events if name not in counted]

    def sample(self) -> dict[str, float]:
        """Rates over the intervals that perf has reported since the previous sample; empty if it has reported none."""
        while self._receive():
            pass
        lines, _, self._rest = self._rest.rpartition(b"\n")
        for at, event, count in parse(lines.decode(errors="replace")):
            self._intervals.setdefault(at, {})[event] = count or 0.0
        complete = [at for at, counts in self._intervals.items() if len(counts) == self._events]
        if not complete:
            return {}
        counted = [self._intervals.pop(at) for at in complete]
        seconds, self._at = complete[-1] - self._at, complete[-1]
        return rates({event: sum(each[event] for each in counted) for event in counted[0]}, seconds)

    def _receive(self) -> bool:
        """Read once from perf, without waiting; whether there was output."""
        if not self._is_readable(0.0):
            return False
        data = os.read(self._stdout(), CHUNK)
        if not data:
            raise NotAvailable("perf has ended; see perf.stderr in the step's output")
        self._rest += data
        return True

    def _is_readable(self, seconds: float) -> bool:
        """Whether perf has written something, or ended, within this time."""
        ready = select.poll()
        ready.register(self._stdout(), select.POLLIN)
        return bool(ready.poll(seconds * 1000))

    def _stdout(self) -> int:
        stdout = self._child.popen.stdout
        assert stdout is not None  # noqa: S101 - for the type checker
        return stdout.fileno()

    def finish(self) -> dict[str, Any]:
        """End perf. Its process is in the journal, so the end of a run ends it in any case."""
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
    """Pure. (seconds since the start of perf, event, count) from lines of `perf stat -x ";"`. Seconds are 0 without
    intervals, a count is None for an event that was not counted. Modifiers such as :u are removed."""
    events = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(";")]
        at = fields.pop(0) if len(fields) > 3 and _MOMENT.match(fields[0]) and _COUNT.match(fields[1]) else "0"
        if len(fields) > 2 and fields[2] and _COUNT.match(fields[0]):
            count = None if fields[0].startswith("<") else float(fields[0])
            events.append((float(at), _MODIFIER.sub("", fields[2]), count))
    return events


def rates(counts: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Pure. Events per second, and instructions per cycle if both were counted."""
    values = {event: rounded(count / max(seconds, 1e-3)) for event, count in counts.items()}
    if counts.get("cycles") and "instructions" in counts:
        values[IPC] = rounded(counts["instructions"] / counts["cycles"])
    return values
