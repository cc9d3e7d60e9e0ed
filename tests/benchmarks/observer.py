"""The cost of collectors: TPS with the agent awake and asleep, and its CPU time.

python -m tests.benchmarks.observer

The real agent observes pgbench on a real cluster. Within one load, signals stop and wake it in the order on, off, off,
on, a few seconds each: neighbours are compared, and slow changes of the machine cancel out. TPS are those of pgbench,
second by second. CPU time is measured twice: by the agent, and by the kernel for the agent's process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.build import build_zipapp
from agents.collectors import COLLECTORS
from embedded.servers.postgres import bin_dir
from tests.agents.driver import OK, Connection, of
from tests.benchmarks.settings import interval

LOADS = ("select-only", "tpcb-like")
ON, OFF = True, False
ABBA = (ON, OFF, OFF, ON)
WARM_S = 2  # of each load, before anything is compared
PROGRESS = re.compile(rb"^progress: ([\d.]+) s, ([\d.]+) tps", re.MULTILINE)


@dataclass
class Comparison:
    """One load: TPS of each slice, and the CPU time of the agent while it was awake."""

    on: list[float] = field(default_factory=list)
    off: list[float] = field(default_factory=list)
    awake_s: float = 0.0
    cpu_s: float = 0.0
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    reported_s: float = 0.0  # that the agent was awake while the load ran, before and after the slices as well

    @property
    def share(self) -> float:
        """Of the agent's process, in % of one cpu, by the kernel's account."""
        return 100 * self.cpu_s / self.awake_s

    @property
    def apart(self) -> float:
        """CPU time of psql and its backend, in the same unit, as the agent reports it."""
        return 100 * sum(cost["apart_s"] for cost in self.costs.values()) / self.reported_s

    @property
    def reported(self) -> float:
        """Costs of collectors and proofs that the agent reports, including helper processes."""
        return 100 * sum(cost["cpu_s"] + cost["apart_s"] for cost in self.costs.values()) / self.reported_s


class Bench:
    """An agent with a spool and a cluster of its own."""

    def __init__(self, root: Path, scale: int) -> None:
        self.root, self.scale, self.spool = root, scale, root / "spool"
        root.chmod(0o755)
        build_zipapp(root / "agent.pyz")
        self.agent = Connection(root / "agent.pyz", self.spool)

    def observe(
        self, load: str, sources: Sequence[str], clients: int, slices: Sequence[bool], slice_s: int
    ) -> Comparison:
        """One load for the duration of all slices; with one slice the agent is awake all the time."""
        # Clients connect within the time of the load.
        seconds = WARM_S + slice_s * len(slices) + 1 + clients // 64
        run = self.agent.submit(self._spec(load, list(sources), clients, seconds))
        self.agent.events(run, until="measuring", limit_s=600)
        comparison = self._slices(run, slices, slice_s)
        events = self.agent.events(run, limit_s=seconds + 120)
        assert of(events, "outcome") == [OK], of(events, "outcome")
        assert comparison.awake_s, "the load ended before it was compared: connecting took all its time"
        (measured,) = of(events, "measured")
        comparison.costs = measured["costs"]
        comparison.reported_s = measured["ended"] - measured["began"] - slice_s * list(slices).count(OFF)
        self.agent.call("ack", run=run, manifest=self.agent.manifest(run)[1])
        self.agent.call("purge", run=run)
        return comparison

    def _spec(self, load: str, sources: list[str], clients: int, seconds: int) -> dict[str, Any]:
        options = {"builtin": load, "scale": self.scale, "clients": clients, "jobs": 2, "mode": "prepared"}
        options |= {"time_s": seconds, "progress_s": 1}
        return {
            "version": 1,
            "target": {"kind": "private", "bin_dir": str(bin_dir()), "data_dir": str(self.root), "os_user": ""},
            "settings": {"postgresql": {"shared_buffers": "256MB", "max_connections": "600"}},
            "dataset": {"kind": "pgbench", "options": {"scale": self.scale}},
            "steps": [{"name": "measure", "kind": "pgbench", "options": options}],
            "collect": {"interval_s": 1, "sources": sources},
        }

    def _slices(self, run: str, slices: Sequence[bool], slice_s: int) -> Comparison:
        job, comparison = self.spool / "jobs" / run, Comparison()
        session = json.loads((job / "state.jsonl").read_text().splitlines()[-1])["pid"]
        stderr = job / "out/measure/stderr"
        begun = time.monotonic()
        while not PROGRESS.search(stderr.read_bytes() if stderr.exists() else b""):
            assert time.monotonic() - begun < 60, "pgbench tells no progress"
            time.sleep(0.02)
        began = time.monotonic() - 1.0
        try:
            for number, awake in enumerate(slices):
                self._slice(comparison, session, awake, began + WARM_S + number * slice_s, slice_s)
        except FileNotFoundError:
            return comparison  # the run has ended too early; its outcome tells why
        finally:
            with suppress(ProcessLookupError):
                os.kill(session, signal.SIGCONT)
        time.sleep(0.5)
        progress = {float(at): float(tps) for at, tps in PROGRESS.findall(stderr.read_bytes())}
        for number, awake in enumerate(slices):
            first = WARM_S + number * slice_s
            inside = [tps for at, tps in progress.items() if first + 0.5 < at < first + slice_s + 0.5]
            (comparison.on if awake else comparison.off).append(statistics.mean(inside))
        return comparison

    @staticmethod
    def _slice(comparison: Comparison, pid: int, awake: bool, begin: float, seconds: int) -> None:
        time.sleep(max(0.0, begin - time.monotonic()))
        os.kill(pid, signal.SIGCONT if awake else signal.SIGSTOP)
        before, at = _cpu_s(pid), time.monotonic()
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        if awake:
            comparison.cpu_s += _cpu_s(pid) - before
            comparison.awake_s += time.monotonic() - at


def _cpu_s(pid: int) -> float:
    """Of a process with all its threads, to the ns; its dead children are their own."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def available(bench: Bench) -> list[str]:
    """Collectors whose sources exist on this machine."""
    comparison = bench.observe("select-only", list(COLLECTORS), 2, (ON,), 2)
    return [name for name in COLLECTORS if name in comparison.costs]


def compared(bench: Bench, load: str, sources: Sequence[str], quads: int, options: argparse.Namespace) -> Comparison:
    return bench.observe(load, sources, options.clients, ABBA * quads, options.slice)


def line(load: str, name: str, comparison: Comparison) -> float:
    """Print one comparison; the ratio."""
    pairs = list(zip(comparison.on, comparison.off, strict=True))
    ratio, low, high = interval([on / off for on, off in pairs])
    spread = f"{ratio:.4f}  [{low:.4f}, {high:.4f}]"
    agent, helpers = comparison.share, comparison.apart
    cpu = f"{agent:>9.3f} {helpers:>9.3f} {agent + helpers:>9.3f} {comparison.reported:>13.3f}"
    print(
        f"  {load:<12} {name:<11} {len(pairs):>5}  {statistics.mean(comparison.off):>9.0f}  {spread:<26} {cpu}",
        flush=True,
    )
    return ratio


def table(bench: Bench, options: argparse.Namespace) -> tuple[dict[str, float], float]:
    """(load -> TPS ratio of all together, the agent's and its helpers' largest share of a cpu)."""
    alone = available(bench)
    head = f"{'agent %':>9} {'helpers %':>9} {'in all %':>9} {'as reported %':>13}"
    print(f"  {'load':<12} {'collectors':<11} {'pairs':>5}  {'TPS off':>9}  {'TPS on/off [95 %]':<26} {head}")
    ratios, most = {}, 0.0
    for load in LOADS:
        for name in alone if options.each else ():
            line(load, name, compared(bench, load, [name], options.each, options))
        comparison = compared(bench, load, list(COLLECTORS), options.quads, options)
        ratios[load] = line(load, "all", comparison)
        most = max(most, comparison.share + comparison.apart)
    return ratios, most


def crowds(bench: Bench, options: argparse.Namespace) -> None:
    """Cpu alone: with many backends single TPS tell nothing."""
    for clients in options.crowds:
        comparison = bench.observe("select-only", list(COLLECTORS), clients, (ON,), 10)
        parts = {
            name: 1000 * (cost["cpu_s"] + cost["apart_s"]) / cost["samples"] for name, cost in comparison.costs.items()
        }
        dear = ", ".join(f"{name} {ms:.2f}" for name, ms in sorted(parts.items(), key=lambda part: -part[1])[:4])
        agent, helpers = comparison.share, comparison.apart
        shares = f"agent {agent:.3f} %, helpers {helpers:.3f} %, in all {agent + helpers:.3f} %"
        print(f"  {clients:>4} clients: {shares} of one cpu; cpu ms per look: {dear}", flush=True)


def measure(options: argparse.Namespace) -> bool:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pg-obs-") as root:
        bench = Bench(Path(root), options.scale)
        slices = f"slices of {options.slice} s, {options.clients} clients, 1 Hz"
        print(f"observer's cost, {slices}; cpu in % of one; on {os.cpu_count()} cpus at load {os.getloadavg()[0]:.2f}")
        ratios, most = table(bench, options)
        crowds(bench, options)
        bench.agent.close()
    worst = min(ratios.values())
    print(f"all together: TPS ratio {worst:.4f} at worst (aim >= 0.99), {most:.3f} % of one cpu (aim < 1)", end=", ")
    print(f"in {time.monotonic() - begun:.0f} s")
    return worst >= 0.99 and most < 1


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(prog="python -m tests.benchmarks.observer", description=__doc__)
    arguments.add_argument("--quads", type=int, default=10, help="on off off on of all collectors together (10)")
    arguments.add_argument("--each", type=int, default=1, help="the same of each alone (1); 0: none")
    arguments.add_argument("--slice", type=int, default=2, help="seconds of one slice (2)")
    arguments.add_argument("--clients", type=int, default=8, help="of pgbench (8)")
    arguments.add_argument("--scale", type=int, default=10, help="of pgbench (10)")
    arguments.add_argument(
        "--crowds", type=int, nargs="*", default=[64, 512], help="clients for the share of cpu alone"
    )
    return arguments


if __name__ == "__main__":
    sys.exit(0 if measure(parser().parse_args()) else 1)
