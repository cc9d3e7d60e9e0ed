"""The figures of one fleet, and the model of the cost over all of them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from tests.benchmarks.fleet.lateness import quantiles

PARTS = ("dispatcher", "worker", "postgres", "valkey", "beat", "hosts")  # "hosts": the simulated ones
OF_REAL = ("links", "runs", "sshd")


@dataclass
class Row:
    """The figures of a fleet. Lags in seconds; cpu in shares of one CPU.

    `adopted`: for each tick of a run whose dispatcher was killed, the seconds from the kill until another one claimed
    it. `miscounted`: runs with fewer or more stored events than their host wrote."""

    hosts: int
    real: int
    running_s: float = 0.0
    ended_s: float = 0.0
    errors: int = 0
    miscounted: int = 0
    ticks: list[float] = field(default_factory=list)
    adopted: list[float] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    load: float = 0.0


def report(row: Row) -> str:
    """A few lines of figures."""
    of = {**dict.fromkeys(PARTS, row.hosts), **dict.fromkeys(OF_REAL, row.real), "hosts": row.hosts - row.real}
    agents = () if row.adopted else OF_REAL  # those of a killed dispatcher have ended, and their cpu time is not known
    shown = [part for part in ("dispatcher", "postgres", "valkey", *agents, "hosts") if of[part]]
    per_host = ", ".join(f"{part} {1000 * row.cpu.get(part, 0.0) / of[part]:.2f}" for part in shown)
    memory = ", ".join(f"{part} {row.memory.get(part, 0.0) / of[part]:.2f}" for part in shown)
    lines = [
        f"{row.hosts} hosts, {row.real} of them real: all running after {row.running_s:.1f} s, errors {row.errors}, "
        f"runs with lost or repeated events {row.miscounted}, all cancelled and clean after {row.ended_s:.1f} s",
        f"  ticks begin late by {quantiles(row.ticks)} (n {len(row.ticks)}); load average {row.load:.1f}",
        f"  events are stored after {quantiles(row.events)} (n {len(row.events)})",
        "  shares of one cpu: " + ", ".join(f"{part} {row.cpu.get(part, 0.0):.1%}" for part in PARTS),
        f"  per host, ms of cpu a second: {per_host}",
        f"  dispatchers {row.memory.get('dispatcher', 0.0):.0f} MB; per host, MB: {memory}",
    ]
    if row.adopted:
        after = f"{min(row.adopted):.1f} to {max(row.adopted):.1f} s"
        everything = quantiles([*row.ticks, *row.adopted])
        lines.append(f"  {len(row.adopted)} runs of the killed dispatcher were adopted after {after}")
        lines.append(f"  ticks, adoptions included, begin late by {everything}")
    return "\n".join(lines)


def model(rows: list[Row]) -> str:
    """The fixed cost of each part of the server and that of each host, as a line through the fleets."""
    lines = ["model of the cpu time, in ms a second:"]
    for part in PARTS[:-1]:
        costs = [1000 * row.cpu.get(part, 0.0) for row in rows]
        slope, fixed = statistics.linear_regression([row.hosts for row in rows], costs)
        off = max(abs(fixed + slope * row.hosts - cost) for row, cost in zip(rows, costs, strict=True))
        lines.append(f"  {part}: {fixed:.1f} + {slope:.3f} for each host; at most {off:.1f} from what was measured")
    first, last = rows[0], rows[-1]
    grown = (last.memory["dispatcher"] - first.memory["dispatcher"]) / (last.hosts - first.hosts)
    lines.append(f"  memory of the dispatchers: {grown:.2f} MB for each further host")
    return "\n".join(lines)
