"""Durations of requests: counted once over all processes, also if Redis fails."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from apps.monitoring import latencies

ROOT = Path(__file__).resolve().parents[3]
NAME = latencies.NAME
# A request gives the connection of its thread back, which an earlier test of the process may have left open.
pytestmark = pytest.mark.django_db
PROCESS = """
import sys, django
django.setup()
from apps.monitoring import latencies
latencies.REDIS_KEY = sys.argv[1]
latencies.tally.add(("home", "GET", "2xx"), float(sys.argv[2]))
latencies.sender.wake()
"""


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hash of this test's own, and nothing counted yet. The thread of the process would send requests of earlier
    tests there."""
    latencies.sender.send()
    monkeypatch.setattr(latencies, "REDIS_KEY", f"test:{uuid.uuid4()}")
    monkeypatch.setattr(latencies, "tally", latencies.Tally())
    monkeypatch.setattr(latencies, "sender", latencies.Sender(latencies.tally))
    redis, place = latencies._redis(), latencies.REDIS_KEY
    yield place
    redis.delete(place, latencies._began_key())


def samples_by_name() -> dict[str, float]:
    """Each sample by its name and labels."""
    lines = [line for family in latencies.families() for line in family.lines()]
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def test_a_request_is_counted_by_its_view_its_method_and_the_class_of_its_status(client: Client) -> None:
    client.get("/healthz")
    client.head("/healthz")
    client.post("/healthz")
    client.get("/nowhere")
    client.generic("BREW", "/healthz")

    counted = {name: count for name, count in samples_by_name().items() if "_count" in name}

    assert counted == {
        f'{NAME}_count{{view="healthz",method="GET",status="2xx"}}': 1,
        f'{NAME}_count{{view="healthz",method="HEAD",status="2xx"}}': 1,
        f'{NAME}_count{{view="healthz",method="POST",status="4xx"}}': 1,
        f'{NAME}_count{{view="healthz",method="other",status="4xx"}}': 1,
        f'{NAME}_count{{view="none",method="GET",status="4xx"}}': 1,
    }


def test_a_bucket_has_all_that_were_as_fast_or_faster() -> None:
    for seconds in (0.001, 0.01, 0.02, 3.0, 20.0):
        latencies.tally.add(("home", "GET", "2xx"), seconds)

    samples = samples_by_name()

    buckets = {name.rpartition('le="')[2].rstrip('"}'): count for name, count in samples.items() if "_bucket" in name}
    assert list(buckets.values()) == [2, 3, 3, 3, 3, 3, 3, 3, 4, 5]
    assert list(buckets) == [*map(str, latencies.BOUNDS_S), "+Inf"]
    assert samples[f'{NAME}_sum{{view="home",method="GET",status="2xx"}}'] == 23.031


@pytest.mark.thorough
def test_counts_of_several_processes_are_added_and_sent_when_they_end(place: str) -> None:
    environment = {**os.environ, "PROVING_CACHE_URL": settings.CACHES["default"]["LOCATION"]}
    for seconds in ("0.25", "0.5"):
        argv = [sys.executable, "-c", PROCESS, place, seconds]
        subprocess.run(argv, check=True, timeout=60, cwd=ROOT, env=environment)

    samples = samples_by_name()

    assert samples[f'{NAME}_count{{view="home",method="GET",status="2xx"}}'] == 2
    assert samples[f'{NAME}_sum{{view="home",method="GET",status="2xx"}}'] == 0.75


def test_without_redis_requests_are_answered_and_counted_later(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as gone:
        gone.setattr(latencies, "_redis", lambda: latencies.connected("redis://127.0.0.1:1/0"))
        statuses = [client.get("/healthz").status_code for _ in range(2)]
        nothing = samples_by_name()
        latencies.sender.send()

    assert statuses == [200, 200] and nothing == {}
    assert "durations of requests are buffered until the cache answers:" in caplog.text
    assert samples_by_name()[f'{NAME}_count{{view="healthz",method="GET",status="2xx"}}'] == 2


def test_a_request_itself_never_asks_redis(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[object]()
    monkeypatch.setattr(latencies, "_redis", lambda: calls.append(1))

    client.get("/healthz")

    assert calls == []
    assert ("healthz", "GET", "2xx") in latencies.tally.take()
