"""Observation of a measured step: collectors, proofs, progress, and their cost."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional

from ..collectors import NotAvailable
from ..records.spool import replace
from ..wire import protocol

if TYPE_CHECKING:
    from ..collectors import Collector
    from ..run.running import Run

CONNECTED_S = 0.25  # connections of a load generator are up by then
TICK_S = 1.0
SHORT = 0.25  # of an interval: rates over what is left at the end, if it is shorter, would be noise
FINEST = 1e-3  # of a step: a bar shows no smaller progress
PROOFS = "proofs"  # what looking after settings costs, beside the collectors


@dataclass
class Cost:
    """CPU seconds of observation: of the agent, and (`apart_s`) of other processes that work for a collector."""

    samples: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    apart_s: float = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.wall_s += time.perf_counter() - wall
            self.cpu_s += time.process_time() - cpu

    def as_json(self) -> dict[str, Any]:
        rounded = {name: round(getattr(self, name), 6) for name in ("wall_s", "cpu_s", "apart_s")}
        return {"samples": self.samples, **rounded}


class Observer:
    """Looks right before the load starts, every interval, and right after it has ended."""

    def __init__(self, run: Run, step: str, out: Path, total_s: Optional[float]) -> None:
        self._run, self._step, self._out, self._total = run, step, out, total_s
        self._next_tick, self._next_watch, self._next_proof = run.interval_s, CONNECTED_S, CONNECTED_S
        self._ticked, self._reported, self._began, self.begun = 0.0, 0.0, run.system.wall(), run.system.mono()
        self._costs = {PROOFS: Cost()}
        self._collectors: list[Collector] = []
        for collector in sorted(run.make_collectors(out), key=lambda each: not each.slow_start):
            if self._carefully(collector, collector.start) is not None:
                self._collectors.append(collector)
                for note in collector.notes:
                    run.note(note)

    def begin(self) -> None:
        """The load is about to start."""
        for collector in list(self._collectors):
            self._sample(collector, 0.0, collector.gauges)
        for cost in self._costs.values():
            cost.wall_s = cost.cpu_s = 0.0  # CPU time before the load starts does not disturb it
            cost.samples = 0
        self._apart = {collector.name: collector.apart_cpu_s() for collector in self._collectors}
        self._began, self.begun = self._run.system.wall(), self._run.system.mono()
        self._run.emit("measuring", {"step": self._step, "began": self._began})

    def poll(self, elapsed: float) -> float:
        """Take the samples that are due. Returns the time of the next one."""
        if elapsed >= self._next_watch:
            with self._costs[PROOFS].counted():
                self._watch(elapsed)
        if elapsed >= self._next_tick:
            self._tick(elapsed)
        return min(self._next_tick, self._next_watch)

    def _watch(self, elapsed: float) -> None:
        self._costs[PROOFS].samples += 1
        self._next_watch = max(self._next_watch, TICK_S) + TICK_S if elapsed >= TICK_S else TICK_S
        self._run.watch()
        if elapsed >= self._next_proof:
            # Clients may connect late; later proofs grow rare, for processes inherit what their parents were given.
            self._next_proof = max(TICK_S, 2 * elapsed)
            self._run.verify("during")

    def _tick(self, elapsed: float) -> None:
        while self._next_tick <= elapsed:
            self._next_tick += self._run.interval_s
        self._ticked = elapsed
        for collector in list(self._collectors):
            self._sample(collector, elapsed, collector.sample)
        if self._total and elapsed >= self._reported + self._total * FINEST:
            self._reported = elapsed
            done, left = min(1.0, elapsed / self._total), max(0.0, self._total - elapsed)
            note = {"step": self._step, "done": round(done, 3), "eta_s": round(left, 1), "note": ""}
            self._run.emit("progress", note)

    def _sample(self, collector: Collector, elapsed: float, take: Callable[[], dict[str, float]]) -> None:
        cost = self._costs[collector.name]
        with cost.counted():
            values = self._carefully(collector, take)
            if values:
                data = {"step": self._step, "source": collector.name, "t": round(elapsed, 3), "values": values}
                self._run.emit("sample", data)
        cost.samples += 1

    def _carefully(self, collector: Collector, act: Callable[[], Any]) -> Any:
        """Its result (True for none); None, and the collector is dropped, if there is nothing to sample."""
        self._costs.setdefault(collector.name, Cost())
        try:
            value = act()
        except NotAvailable as reason:
            self._run.log("info", f"collector {collector.name} is not available: {reason}")
            self._collectors = [each for each in self._collectors if each is not collector]
            return None
        return True if value is None else value

    def ended(self) -> float:
        """The load has ended just now. Returns the seconds it took."""
        took = self._run.system.mono() - self.begun  # the clock may have been set meanwhile
        short = took - self._ticked < SHORT * self._run.interval_s
        for collector in list(self._collectors):
            self._sample(collector, took, collector.gauges if short or collector.late else collector.sample)
        self._tell(took)
        return took

    def _tell(self, took: float) -> None:
        for collector in self._collectors:
            self._costs[collector.name].apart_s = collector.apart_cpu_s() - self._apart.get(collector.name, 0.0)
        self._run.collector_cpu_s += sum(cost.cpu_s + cost.apart_s for cost in self._costs.values())
        costs = {name: cost.as_json() for name, cost in self._costs.items() if cost.samples}
        began = {"began": self._began, "ended": self._began + took}
        self._run.emit("measured", {"step": self._step, **began, "costs": costs})

    def finish(self) -> None:
        """The tool ended well: what the step came to in all, and the proofs."""
        for collector in self._collectors:
            totals = self._carefully(collector, collector.finish)
            if isinstance(totals, dict) and totals:
                replace(self._out / f"{collector.name}.json", protocol.canonical(totals))
        if self._next_proof == CONNECTED_S:
            short = f"step {self._step} ended before its processes were checked; only the earlier proofs exist"
            self._run.log("warning", short)
        self._run.verify("after")
