"""The duration of each phase of a run, from the records of server and agent."""

from __future__ import annotations

import statistics
from collections import defaultdict
from datetime import datetime
from typing import Any

from apps.results.phases import PHASES, AgentEvent, phases_of
from embedded.demo.client import Client


def phases(client: Client, campaign: str) -> dict[str, list[float]]:
    """Phase -> seconds in each run of a campaign that ended well. The first has no run before it, and no queue."""
    seconds: dict[str, list[float]] = defaultdict(list)
    runs = client.get(f"runs/?campaign={campaign}&page_size=200")["results"]
    before = None
    for run in sorted(runs, key=lambda run: str(run["started_at"])):
        for name, duration in _seconds(client, run, before).items():
            seconds[name].append(duration)
        before = _at(run["ended_at"])
    return seconds


def _seconds(client: Client, run: dict[str, Any], before: float | None) -> dict[str, float]:
    """Phase -> seconds of one run, all of its steps together."""
    rows = client.get(f"runs/{run['id']}/events/?after=0&limit=1000")["results"]
    events = [AgentEvent(row["kind"], _at(row["at"]), row["data"]) for row in rows]
    total: dict[str, float] = defaultdict(float)
    for phase in phases_of(events, before, _at(run["started_at"]), _at(run["ended_at"])):
        total[phase.name] += phase.ended - phase.began
    return total


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def table(seconds: dict[str, list[float]]) -> str:
    """Median and largest of each phase in ms."""
    rows = [(name, statistics.median(seconds[name]), max(seconds[name])) for name in PHASES if seconds.get(name)]
    lines = [f"  {name:<10}{median * 1000:>9.0f}{most * 1000:>9.0f}  {PHASES[name]}" for name, median, most in rows]
    rest = sum(median for name, median, _ in rows if name != "measure")
    return "\n".join(["  phase     median ms  most ms", *lines, f"  all but the load: {rest * 1000:.0f} ms of a run"])
