"""Time from cancel to a restored host: python -m tests.benchmarks.cancel --times 30 --kinds pgbench fio init.

Each time, a campaign of one run starts on this machine and is cancelled through the API at a seeded random moment:
while pgbench measures, while fio measures, or while pgbench -i creates a data set. Then no process with the run's mark
may live, and the agent must have proven that everything is restored.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from agents.records.processes import MARK
from tests.servers.ground import Ground, prepare

LEVELS = [{"label": "cpu 0", "set": {"settings.cpu_affinity.server": "0"}}]
AS_IT_IS = [{"label": "as it is", "set": {}}]
PGBENCH = {"builtin": "tpcb-like", "scale": 5, "clients": 4, "jobs": 2, "time_s": 900, "progress_s": 1}
FIO = {"rw": "randrw", "bs": "8k", "size": "64m", "iodepth": 4, "numjobs": 2, "ioengine": "libaio", "runtime_s": 900}
# Name -> the workload, its levels, what its campaign measures, and the step in which it is cancelled.
KINDS: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]], str, str]] = {
    "pgbench": ("pgbench", PGBENCH, LEVELS, "tps", "measure"),
    "fio": ("fio", FIO, AS_IT_IS, "read iops", "measure"),
    "init": ("pgbench", PGBENCH | {"scale": 400}, LEVELS, "tps", "dataset"),
}
LATEST_S = 4.0  # after the state was seen
LIMIT_S = 300.0


@dataclass(frozen=True)
class Cancelled:
    """Seconds from the click until the agent stopped working, had put everything back, and the server had it all."""

    noticed: float
    restored: float
    ended: float


def cancel_once(ground: Ground, kind: str, random: Random) -> Cancelled:
    """One run, cancelled. AssertionError when anything is left of it."""
    campaign, step = _start(ground, kind), KINDS[kind][4]
    run = _wait(ground, campaign, lambda run: (run["agent_state"], run["step"]) == ("RUNNING", step))
    time.sleep(random.uniform(0.0, LATEST_S))
    click = time.time()
    ground.client.post(f"campaigns/{campaign}/cancel/")
    run = _wait(ground, campaign, lambda run: run["state"] == "ended")
    detail = ground.client.get(f"runs/{run['id']}/")
    assert detail["outcome"] == "cancelled", detail["error"]
    assert detail["manifest"]["clean"] and not detail["manifest"]["conflicts"], detail["manifest"]
    assert not (left := _marked(run["id"])), left
    ended = _at(detail["ended_at"]) - click
    states = _states(ground, run["id"])
    return Cancelled(states["ROLLING_BACK"] - click, states["CLEAN"] - click, ended)


def _start(ground: Ground, kind: str) -> str:
    tool, options, levels, metric, _ = KINDS[kind]
    workload = ground.client.post("workloads/", name=f"long-{kind}", kind=tool, options=options)
    campaign = ground.client.post(
        "campaigns/",
        name=f"cancelled {kind}",
        question="how soon is the host free?",
        host=ground.host["id"],
        workload=workload["id"],
        factors=[{"name": "server cpus", "levels": levels}],
        repetitions=1,
        metric=metric,
    )
    ground.client.post(f"campaigns/{campaign['id']}/start/")
    return str(campaign["id"])


def _wait(ground: Ground, campaign: str, done: Any) -> dict[str, Any]:
    deadline = time.monotonic() + LIMIT_S
    while True:
        run: dict[str, Any] = ground.client.get(f"runs/?campaign={campaign}")["results"][0]
        if done(run):
            return run
        assert time.monotonic() < deadline and (run["state"] != "ended"), run
        time.sleep(0.1)


def _states(ground: Ground, run: str) -> dict[str, float]:
    """The agent's states, and when each was entered by the wall clock."""
    events = ground.client.get(f"runs/{run}/events/?after=0&limit=1000")["results"]
    return {event["data"]["state"]: _at(event["at"]) for event in events if event["kind"] == "state"}


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _marked(run: str) -> list[str]:
    """Processes that carry the mark of a run."""
    mark, paths = f"{MARK}={run}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            paths += [str(path)] if mark in path.read_bytes() else []
        except OSError:
            continue  # it ended between the listing and the reading
    return paths


def report(kind: str, times: list[Cancelled]) -> str:
    lines = [f"{kind}, cancelled {len(times)} times, nothing left behind; seconds from the click"]
    for name, description in (
        ("noticed", "the work stops"),
        ("restored", "the host is restored"),
        ("ended", "run ended"),
    ):
        p50, p99, most = np.percentile([getattr(each, name) for each in times], [50, 99, 100])
        lines.append(f"  until {description:<22} p50 {p50:.2f}, p99 {p99:.2f}, max {most:.2f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cancel", description=__doc__)
    parser.add_argument("--times", type=int, default=30, help="of each kind (30)")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    random = Random(options.seed)
    print(f"seed {options.seed}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cpus", flush=True)
    with prepare() as ground:
        for kind in options.kinds:
            print(report(kind, [cancel_once(ground, kind, random) for _ in range(options.times)]), flush=True)
    print(f"load afterwards {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
