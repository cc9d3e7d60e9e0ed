"""A hundred users who browse pages and API at once, with the web server of production.

python -m tests.benchmarks.load                 100 users for 30 s: on 10 000 runs, and on 13 554 more in one campaign
python -m tests.benchmarks.load --runs 1000000  and then on a million, which takes five minutes and 5 GB more
python -m tests.benchmarks.load --think 0       no pause between requests: the maximum rate of the server

Each user is a thread with its own connection and session, which requests a page, reads it for a while (exponentially
distributed, seeded), and requests the next. The threads, the server and PostgreSQL share the machine. From the second
stage on the pages are the same, including those of the large campaign: the two stages show the cost of more history.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from embedded.stack import ADDRESS, Stack
from tests.benchmarks import account
from tests.benchmarks.pages.addresses import addresses
from tests.benchmarks.pages.server import peak_mb, running, session, stages

AIM_P95_MS, AIM_ERRORS = 500.0, 0
SERVERS = ("web", "postgres")
SEED, PATIENCE_S = 7, 30.0


@dataclass
class Stage:
    """What one stage answered: milliseconds by name of page, and what went wrong."""

    title: str
    users: int
    seconds: float = 0.0
    taken: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    size: int = 0
    peak_mb: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)

    @property
    def all(self) -> list[float]:
        return [each for times in self.taken.values() for each in times]

    @property
    def per_second(self) -> float:
        return len(self.all) / self.seconds

    def percentile(self, share: int) -> float:
        return statistics.quantiles(self.all, n=100)[share - 1]


class Visitor(threading.Thread):
    """A user who browses until `until` (of time.monotonic)."""

    def __init__(self, number: int, port: int, cookie: str, pages: dict[str, str], think: float, until: float) -> None:
        super().__init__(daemon=True)
        self.chance = random.Random(SEED + number)
        self.connection = HTTPConnection(ADDRESS, port, timeout=PATIENCE_S)
        self.cookie, self.pages, self.think, self.until = cookie, list(pages.items()), think, until
        self.taken: list[tuple[str, float]] = []
        self.errors: Counter[str] = Counter()
        self.size = 0

    def run(self) -> None:
        self._read(self.chance.uniform(0, self.think))
        while time.monotonic() < self.until:
            self._ask(*self.chance.choice(self.pages))
            self._read(self.chance.expovariate(1 / self.think) if self.think else 0)
        self.connection.close()

    def _read(self, seconds: float) -> None:
        time.sleep(max(0.0, min(seconds, self.until - time.monotonic())))

    def _ask(self, name: str, path: str) -> None:
        begun = time.perf_counter()
        try:
            try:
                status = self._answer(path)
            except (ConnectionResetError, BrokenPipeError):  # RemoteDisconnected is one
                self.connection.close()  # kept alive, and ended by the server meanwhile: browsers ask again, too
                status = self._answer(path)
        except (OSError, HTTPException) as error:
            self.errors[f"{name}: {type(error).__name__}"] += 1
            self.connection.close()
            return
        if status == 200:
            self.taken.append((name, 1000 * (time.perf_counter() - begun)))
        else:
            self.errors[f"{name}: {status}"] += 1

    def _answer(self, path: str) -> int:
        self.connection.request("GET", path, headers={"Cookie": f"sessionid={self.cookie}"})
        answer = self.connection.getresponse()
        self.size += len(answer.read())
        return answer.status


def browse(stack: Stack, title: str, users: int, seconds: float, think: float) -> Stage:
    """All users at once. Each page was requested once before, so that answers are cached."""
    stage, pages = Stage(title, users), addresses()
    cookies = [session(f"visitor-{number}") for number in range(users)]
    stack.supervisor.start(stack.web)
    try:
        warm = Visitor(-1, stack.port, cookies[0], pages, 0, 0)
        for name, path in pages.items():
            warm._ask(name, path)
        before, begun = cpu_s(stack), time.monotonic()
        visitors = [Visitor(n, stack.port, cookies[n], pages, think, begun + seconds) for n in range(users)]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join(seconds + 2 * PATIENCE_S)
        stage.seconds = time.monotonic() - begun
        stage.cpu_s = {part: spent - before[part] for part, spent in cpu_s(stack).items()}
        stage.peak_mb = peak_mb(stack.supervisor.pid("web"))
    finally:
        stack.supervisor.end("web")
    for visitor in [warm, *visitors]:
        stage.errors += visitor.errors
    for visitor in visitors:
        stage.size += visitor.size
        for name, taken in visitor.taken:
            stage.taken.setdefault(name, []).append(taken)
    return stage


def cpu_s(stack: Stack) -> dict[str, float]:
    """What each part has spent so far."""
    shares = account.shares({part: stack.supervisor.pid(part) for part in SERVERS}, {})
    own = os.times()
    return {**{part: share.cpu_s for part, share in shares.items()}, "users": own.user + own.system}


def table(stage: Stage) -> str:
    """The sum, then page by page, the slowest first."""
    sums = [
        f"{stage.title}: {stage.users} users, {stage.seconds:.0f} s, {len(stage.all)} answers, "
        f"{stage.per_second:.1f} requests/s, {stage.size / 1e6 / stage.seconds:.2f} MB/s, "
        f"p50 {stage.percentile(50):.0f} ms, p95 {stage.percentile(95):.0f} ms, p99 {stage.percentile(99):.0f} ms, "
        f"{sum(stage.errors.values())} errors, web server at most {stage.peak_mb:.0f} MB",
    ]
    spent = ", ".join(f"{part} {1000 * cpu / len(stage.all):.1f}" for part, cpu in stage.cpu_s.items())
    sums.append(f"  cpu of a request in ms: {spent}")
    pages = sorted(stage.taken.items(), key=lambda item: -statistics.median(item[1]))
    rows = [f"  {name:44} {len(each):6} x  p50 {statistics.median(each):7.0f} ms" for name, each in pages]
    wrong = [f"  error: {what}, {count} times" for what, count in stage.errors.most_common()]
    return "\n".join([*sums, *rows, *wrong])


def growth(before: Stage, after: Stage) -> str:
    """What more history costs where the pages are the same."""
    late = [stage.percentile(95) for stage in (before, after)]
    return (
        f"{after.title} to {before.title}: {after.per_second / before.per_second:.2f} times the requests/s, "
        f"{late[1] / late[0]:.2f} times the p95"
    )


def failures(stage: Stage) -> list[str]:
    late = stage.percentile(95)
    slow = [f"{stage.title}: p95 is {late:.0f} ms, aim {AIM_P95_MS:.0f}"] if late > AIM_P95_MS else []
    errors = sum(stage.errors.values())
    return [*slow, *([f"{stage.title}: {errors} errors, aim {AIM_ERRORS}"] if errors > AIM_ERRORS else [])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.load", description=__doc__)
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each stage (30)")
    parser.add_argument("--think", type=float, default=2.0, help="mean seconds from an answer to the next request (2)")
    parser.add_argument("--runs", type=int, nargs="+", default=[], metavar="N", help="further stages on N runs each")
    parser.add_argument("--state", type=Path, help="a directory that keeps the database for the next time")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    measured: list[Stage] = []
    with running(options.state) as stack:
        from tests.rows import history

        for title, runs, large in stages(options.runs):
            history.fill(runs, large=large)
            measured.append(browse(stack, title, options.users, options.seconds, options.think))
            print(table(measured[-1]))
    for more in measured[2:]:
        print(growth(measured[1], more))
    missed = [miss for stage in measured for miss in failures(stage)]
    for miss in missed:
        print(f"misses its aim: {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
