"""Cost of 200 viewers of one run for the web server, and the age of points when they arrive: streamed, and polled.

Everything is real: the whole stack, a pgbench run with all its collectors at 1 Hz, and a socket for each viewer. Ages
are differences of one machine's clock: from the event's time as the agent wrote it to its arrival at the viewer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from embedded import processes
from tests.servers.ground import Ground, prepare

TICKS = os.sysconf("SC_CLK_TCK")
SESSION = """
from apps.accounts.sessions import SessionStore
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from apps.accounts.models import User
user = User.objects.get(username="ada")
session = SessionStore()
backend = "django.contrib.auth.backends.ModelBackend"
session[SESSION_KEY], session[BACKEND_SESSION_KEY] = str(user.pk), backend
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.save()
print(session.session_key)
"""
CONNECTIONS = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
    print(cursor.fetchone()[0])
"""


@dataclass
class Viewers:
    """What `count` viewers of one run heard: when each sample first arrived at each of them."""

    port: int
    cookie: str
    run: str
    count: int
    heard: list[dict[int, float]] = field(default_factory=list)
    refused: int = 0
    bytes: int = 0

    def request(self, path: str) -> bytes:
        head = f"GET /runs/{self.run}/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: sessionid={self.cookie}\r\n\r\n"
        return head.encode()

    def take(self, mine: dict[int, float], line: bytes) -> int:
        news = json.loads(line)
        for sample in news.get("samples", ()):
            mine.setdefault(sample["seq"], time.time())
        return int(news.get("seq", 0))

    async def stream(self, mine: dict[int, float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 23)
        try:
            writer.write(self.request("stream/?after=0"))
            status = await reader.readline()
            self.refused += b" 200 " not in status
            while line := await reader.readline():
                self.bytes += len(line)
                if line.startswith(b"data: {"):
                    self.take(mine, line[6:])
        finally:
            writer.close()

    async def poll(self, mine: dict[int, float]) -> None:
        """As a page does without streams: asks, and again one second after the answer."""
        seq = 0
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 23)
        while True:
            try:
                writer.write(self.request(f"live.json?after={seq}"))
                length = 0
                self.refused += b" 200 " not in await reader.readuntil(b"\r\n")
                while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                body = await reader.readexactly(length)
                self.bytes += length
                seq = max(seq, self.take(mine, body))
                await asyncio.sleep(1)
            except (OSError, asyncio.IncompleteReadError):
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 23)

    async def watch(self, way: str, seconds: float, meanwhile: Any) -> None:
        self.heard = [{} for _ in range(self.count)]
        tasks = [asyncio.create_task(getattr(self, way)(mine)) for mine in self.heard]
        await asyncio.sleep(5)  # all viewers are connected, and have earlier events
        self.bytes = 0
        begun, before = time.time(), meanwhile()
        await asyncio.sleep(seconds)
        after, ended = meanwhile(), time.time()
        self.cost = {name: after[name] - before[name] for name in ("cpu_s",)} | {"pss_mb": after["pss_mb"]}
        self.since, self.wall = begun, ended - begun
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def usage(sid: int) -> dict[str, float]:
    """CPU seconds and proportional memory of all processes of the web server."""
    cpu = pss = 0.0
    for process in processes.in_session(sid):
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        cpu += (int(stat[11]) + int(stat[12])) / TICKS
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        pss += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024
    return {"cpu_s": cpu, "pss_mb": pss}


def begin(ground: Ground, seconds: int) -> str:
    """Start a run of this duration, and return when it measures."""
    options = {"builtin": "tpcb-like", "scale": 1, "clients": 1, "time_s": seconds, "progress_s": 1, "rate": 50}
    client = ground.client
    workload = client.post("workloads/", name=f"live-{time.time_ns()}", kind="pgbench", options=options)
    factors = [{"name": "cpus", "levels": [{"label": "first", "set": {"settings.cpu_affinity.server": "0"}}]}]
    fields = {"name": "live", "question": "what does looking cost?", "factors": factors, "repetitions": 1}
    made = client.post("campaigns/", host=ground.host["id"], workload=workload["id"], **fields)
    client.post(f"campaigns/{made['id']}/start/")
    while True:
        run = client.get(f"runs/?campaign={made['id']}")["results"][0]
        if run["agent_state"] == "RUNNING" and run["step"] == "measure":
            return str(run["id"])
        assert run["state"] != "ended", run
        time.sleep(0.5)
        ground.supervisor.check()


def written(ground: Ground, run: str, since: float) -> dict[int, float]:
    """seq -> when the agent wrote it, of samples that came after `since`; the newest 1000 are events still."""
    times: dict[int, float] = {}
    after = 0
    while True:
        answer = ground.client.get(f"runs/{run}/events/?limit=1000&after={after}")
        for row in answer["results"]:
            at = datetime.fromisoformat(row["at"]).timestamp()
            if row["kind"] == "sample" and at > since:
                times[row["seq"]] = at
        if not answer["results"]:
            return times
        after = answer["next_after"]


def report(way: str, viewers: Viewers, samples: dict[int, float]) -> None:
    ages = sorted(mine[seq] - at for mine in viewers.heard for seq, at in samples.items() if seq in mine)
    # What came in the last seconds could not have arrived everywhere yet.
    due = [seq for seq, at in samples.items() if at < viewers.since + viewers.wall - 4]
    lost = sum(seq not in mine for mine in viewers.heard for seq in due)
    cuts = statistics.quantiles(ages, n=100)
    cost = viewers.cost
    print(
        f"{way}: {viewers.count} viewers, {viewers.wall:.0f} s: web server {cost['cpu_s'] / viewers.wall:.3f} cores, "
        f"{cost['pss_mb']:.0f} MB; age of a point p50 {cuts[49]:.2f} s, p95 {cuts[94]:.2f} s, max {ages[-1]:.2f} s "
        f"({len(samples)} points, {len(ages)} arrivals, {lost} lost); "
        f"{viewers.bytes / viewers.wall / viewers.count / 1024:.1f} kB/s each; {viewers.refused} refused",
        flush=True,
    )


def measure(ground: Ground, count: int, seconds: int) -> None:
    cookie = ground.stack.manage("shell", "-v", "0", "-c", SESSION).split()[-1]
    sid = ground.supervisor.pid("web")
    alone = usage(sid)["pss_mb"]
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cpus; web server alone {alone:.0f} MB")
    run = begin(ground, 3 * seconds + 60)
    for way in ("stream", "poll"):
        viewers = Viewers(ground.stack.port, cookie, run, count)
        asyncio.run(viewers.watch(way, seconds, lambda: usage(sid)))
        report(way, viewers, written(ground, run, viewers.since))
    connections = ground.stack.manage("shell", "-v", "0", "-c", CONNECTIONS).split()[-1]
    print(f"connections to PostgreSQL of all processes together: {connections}")
    asyncio.run(_stop(ground, Viewers(ground.stack.port, cookie, run, count)))


async def _stop(ground: Ground, viewers: Viewers) -> None:
    """How long the web server takes to stop while all of them are connected."""
    viewers.heard = [{} for _ in range(viewers.count)]
    tasks = [asyncio.create_task(viewers.stream(mine)) for mine in viewers.heard]
    await asyncio.sleep(4)
    begun = time.monotonic()
    await asyncio.to_thread(ground.supervisor.end, "web")
    print(f"web server stopped with {viewers.count} streams open: {time.monotonic() - begun:.1f} s")
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.live", description=__doc__)
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=40, help="of each of the two ways (40)")
    options = parser.parse_args()
    with prepare() as ground:
        measure(ground, options.viewers, options.seconds)


if __name__ == "__main__":
    main()
