"""kill -9 of a part of the server during a run: another process takes the run over and stores each event once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from embedded.errors import UnansweredError
from tests.servers.ground import Ground

WORKLOAD = {"builtin": "select-only", "scale": 1, "clients": 2, "jobs": 1, "time_s": 6, "rate": 200, "progress_s": 1}
LEVELS = [{"label": "cpu 0", "set": {"settings.cpu_affinity.server": "0"}}]


def start(ground: Ground) -> str:
    """A campaign of two runs of six seconds; its id."""
    workload = ground.client.post("workloads/", name="six-seconds", kind="pgbench", options=WORKLOAD)
    campaign = ground.client.post(
        "campaigns/",
        name="killed",
        question="is anything lost?",
        host=ground.host["id"],
        workload=workload["id"],
        factors=[{"name": "server cpus", "levels": LEVELS}],
        repetitions=2,
    )
    ground.client.post(f"campaigns/{campaign['id']}/start/")
    return str(campaign["id"])


def runs(ground: Ground, campaign: str) -> list[dict[str, Any]]:
    return list(ground.client.get(f"runs/?campaign={campaign}")["results"])


def wait(ground: Ground, done: Callable[[], bool], timeout_s: float = 180) -> None:
    """Poll until `done`, and restart killed services as the supervisor does for users."""
    deadline = time.monotonic() + timeout_s
    while not answered(done):
        assert time.monotonic() < deadline
        ground.supervisor.check()
        time.sleep(0.2)


def answered(done: Callable[[], bool]) -> bool:
    """False also while the web server is away."""
    try:
        return done()
    except UnansweredError:
        return False


def measuring(ground: Ground, campaign: str) -> bool:
    running = [run for run in runs(ground, campaign) if run["state"] == "running"]
    for run in running:
        ground.client.get(f"runs/{run['id']}/events/?after=0&limit=1")  # unless it is watched, its state comes late
    return any(run["agent_state"] == "RUNNING" for run in running)


def kill(ground: Ground, service: str) -> None:
    """SIGKILL to every process of a service at once, as the kernel's OOM killer or a power cut of its machine would."""
    os.killpg(ground.supervisor.pid(service), signal.SIGKILL)


def assert_whole(ground: Ground, campaign: str) -> None:
    """Every run is ok, proven and restored, and each sealed event is stored once."""
    for run in runs(ground, campaign):
        detail = ground.client.get(f"runs/{run['id']}/")
        events = ground.client.get(f"runs/{run['id']}/events/?after=0&limit=1000")
        series = ground.client.get(f"series/?run={run['id']}")["results"]
        seqs = [event["seq"] for event in events["results"]]
        assert detail["outcome"] == "ok", detail["error"]
        assert detail["manifest"]["clean"]
        assert len(seqs) == len(set(seqs))
        assert len(seqs) + sum(one["samples"] for one in series) == detail["manifest"]["last_seq"]


def epochs(ground: Ground, campaign: str) -> list[int]:
    return [run["epoch"] for run in runs(ground, campaign)]


@pytest.mark.parametrize(
    "victims", [("dispatcher",), ("web",), ("dispatcher", "worker", "web", "beat"), ("valkey",)], ids=" and ".join
)
def test_a_run_survives_kill_9(ground: Ground, victims: tuple[str, ...]) -> None:
    campaign = start(ground)
    wait(ground, lambda: measuring(ground, campaign))

    for service in victims:
        kill(ground, service)

    wait(ground, lambda: ground.client.get(f"campaigns/{campaign}/")["results_ready"])
    assert_whole(ground, campaign)
    assert len(set(epochs(ground, campaign))) == 2
