"""The pages and periodic tasks of one stage, each measured many times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

from embedded.stack import ADDRESS, Stack
from tests.benchmarks.pages.addresses import addresses
from tests.benchmarks.pages.browser import chromium, drawn, opened
from tests.benchmarks.pages.server import cpu_ms, peak_mb, session

WARM = 2  # requests before those that count


@dataclass
class PageTimes:
    """Milliseconds of each answer, and what there is of it."""

    page: str
    taken: list[float]
    size: int
    queries: int
    first: float
    cpu: float = 0.0  # of the web server, mean

    @property
    def p50(self) -> float:
        return statistics.median(self.taken)

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.taken, n=20)[-1]


@dataclass
class Stage:
    """The measured times with one number of runs in the database."""

    title: str
    runs: int
    pages: dict[str, PageTimes] = field(default_factory=dict)
    drawn: dict[str, list[float]] = field(default_factory=dict)
    opened: dict[str, list[float]] = field(default_factory=dict)
    peak_mb: float = 0.0


def measure(stack: Stack, title: str, others: dict[str, str], times: int, browser: bool) -> Stage:
    from apps.campaigns.models import Run

    stack.supervisor.start(stack.web)  # restarted, so that its peak is that of this stage
    try:
        stage, cookie = Stage(title, Run.objects.count()), session()
        paths = addresses() | others
        for name, path in paths.items():
            stage.pages[name] = measure_page(stack, cookie, name, path, times)
        stage.pages |= {name: beaten(name, act, times) for name, act in beats().items()}
        if browser:
            charts = {name: path for name, path in paths.items() if f"{name}, chart.json" in paths}
            with chromium() as started:
                stage.drawn = drawn(started, stack.base_url, cookie, charts, max(5, times // 4))
                stage.opened = opened(started, stack.base_url, cookie, charts, max(5, times // 4))
        stage.peak_mb = peak_mb(stack.supervisor.pid("web"))
    finally:
        stack.supervisor.end("web")
    return stage


def measure_page(stack: Stack, cookie: str, name: str, path: str, times: int) -> PageTimes:
    connection = HTTPConnection(ADDRESS, stack.port, timeout=120)
    taken, size, web, spent = [], 0, stack.supervisor.pid("web"), 0.0
    try:
        for number in range(times + WARM):
            spent = cpu_ms(web) if number == WARM else spent
            begun = time.perf_counter()
            connection.request("GET", path, headers={"Cookie": f"sessionid={cookie}"})
            answer = connection.getresponse()
            size = len(answer.read())
            taken.append(1000 * (time.perf_counter() - begun))
            assert answer.status == 200, f"{path}: {answer.status}"
    finally:
        connection.close()
    cpu = (cpu_ms(web) - spent) / times
    return PageTimes(name, taken[WARM:], size, queries(cookie, path), taken[0], cpu)


def queries(cookie: str, path: str) -> int:
    """Queries of the same page through Django's client, because HTTP responses do not list them."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client(SERVER_NAME=ADDRESS)
    client.cookies["sessionid"] = cookie
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


def beats() -> dict[str, Callable[[], Any]]:
    """Periodic tasks, measured in a transaction that is rolled back."""
    from django.utils import timezone

    from apps.campaigns.execution import queue
    from apps.campaigns.models import Run
    from apps.decisions.validity import reviews
    from apps.hosts import contact
    from apps.results import queries as results
    from apps.results.answers import interim_analyses

    return {
        "beat: runs that are due": lambda: list(Run.objects.due(timezone.now())),
        "beat: hosts whose next run may begin": queue.arm_idle_hosts,
        "beat: results to read": lambda: list(results.to_ingest()),
        "beat: samples to fold": lambda: list(results.to_fold()),
        "beat: analyses of stop rules": interim_analyses.run_due_analyses,
        "beat: decisions to review": reviews.review_due,
        "beat: checks of hosts": lambda: contact.claim_checks(timezone.now()),
    }


def beaten(name: str, act: Callable[[], Any], times: int) -> PageTimes:
    from django.db import connection, transaction
    from django.test.utils import CaptureQueriesContext

    taken, count = [], 0
    for _ in range(times + WARM):
        with transaction.atomic(), CaptureQueriesContext(connection) as captured:
            begun = time.perf_counter()
            act()
            taken.append(1000 * (time.perf_counter() - begun))
            transaction.set_rollback(True)
        count = len(captured)
    return PageTimes(name, taken[WARM:], 0, count, taken[0])
