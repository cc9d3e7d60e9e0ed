"""The duration of each phase of a run, from the records of server and agent."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

from embedded.demo.client import Client

# In their order; what each ends with.
PHASES = {
    "queue": "since the run before ended: its word, the claim, the connection, hello",
    "submit": "facts, and the agent has the run",
    "apply": "plans, originals, settings, configuration",
    "start": "PostgreSQL starts, and proofs before the load",
    "data": "the data set is there",
    "prepare": "caches, collectors",
    "measure": "the load generator",
    "verify": "totals of collectors, proofs after the load",
    "roll back": "PostgreSQL stops, values go back, proofs",
    "collect": "hashes and manifest on the host, the files travel, the run is committed as ended",
}


def phases(client: Client, campaign: str) -> dict[str, list[float]]:
    """Phase -> seconds in each run of a campaign that ended well. The first has no run before it, and no queue."""
    seconds: dict[str, list[float]] = defaultdict(list)
    runs = client.get(f"runs/?campaign={campaign}&page_size=200")["results"]
    before = None
    for run in sorted(runs, key=lambda run: str(run["started_at"])):
        marks = list(_marks(client, run, before))
        for (_, begun), (name, ended) in pairwise(marks):
            seconds[name].append(ended - begun)
        before = run["ended_at"]
    return seconds


def _marks(client: Client, run: dict[str, Any], before: str | None) -> Iterator[tuple[str, float]]:
    """(phase, when it ended), in order; the first is a mere beginning."""
    events = client.get(f"runs/{run['id']}/events/?after=0&limit=1000")["results"]
    states = {event["data"]["state"]: _at(event["at"]) for event in events if event["kind"] == "state"}
    measured = next(event["data"] for event in events if event["kind"] == "measured")
    server = [e for e in events if e["kind"] == "command" and e["data"]["purpose"] == "postgres"]
    if before:
        yield "", _at(before)
    yield "queue", _at(run["started_at"])
    yield "submit", states["APPLYING"]
    if server:
        yield "apply", _at(server[0]["at"])
    yield "start", states["VERIFIED"]
    yield "data", states["RUNNING"]
    yield "prepare", measured["began"]
    yield "measure", measured["ended"]
    yield "verify", states["ROLLING_BACK"]
    yield "roll back", states["CLEAN"]
    yield "collect", _at(run["ended_at"])


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def table(seconds: dict[str, list[float]]) -> str:
    """Median and largest of each phase in ms."""
    rows = [(name, statistics.median(seconds[name]), max(seconds[name])) for name in PHASES if seconds.get(name)]
    lines = [f"  {name:<10}{median * 1000:>9.0f}{most * 1000:>9.0f}  {PHASES[name]}" for name, median, most in rows]
    rest = sum(median for name, median, _ in rows if name != "measure")
    return "\n".join(["  phase     median ms  most ms", *lines, f"  all but the load: {rest * 1000:.0f} ms of a run"])
