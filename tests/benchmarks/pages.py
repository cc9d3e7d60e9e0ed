"""Durations of pages and lists with a long history: with the server of `make demo`, and rendered in Chromium.

python -m tests.benchmarks.pages            10 000 runs, then 13 554 more in one campaign
python -m tests.benchmarks.pages --million  and then a million, which takes ten minutes and 5 GB more

The campaigns of one stage are those of the next as well: history grows backwards (tests/rows/history.py).
A database that `--state` kept with a million runs is measured as it is. The web server's CPU time is shown, too: on
a busy machine, pages mostly wait for the CPU.
Every page of tests/documents/pages.py is requested as well, with the rows of tests/rows/populate.py.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import django

from embedded import commands, processes
from embedded.servers.postgres import RUNTIME_USER
from embedded.stack import ADDRESS, Stack
from embedded.supervisor import Supervisor

FEW, MANY = 10_000, 1_000_000
AIM_MS, AIM_DRAWN_MS = 200.0, 1000.0
TIMES, WARM = 40, 2
API, LARGE = "/api/v1/", "cache-split"
CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
# PageTimes by a page: when the request of its figure began, and when Plotly had drawn it.
WATCH = """
window.drawn = new Promise((resolve) => document.addEventListener("DOMContentLoaded", () => {
  const plot = document.querySelector("[data-figure]");
  new MutationObserver(() => resolve(performance.now())).observe(plot, { attributeFilter: ["data-drawn"] });
}));
"""
ASK = """async () => {
  const drawn = await window.drawn;
  const figure = new URL(document.querySelector("[data-figure]").dataset.figure, location.href).pathname;
  const asked = performance.getEntriesByType("resource").find((each) => new URL(each.name).pathname === figure);
  return drawn - asked.startTime;
}"""


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
    """What was seen with so many runs in the database."""

    title: str
    runs: int
    pages: dict[str, PageTimes] = field(default_factory=dict)
    drawn: dict[str, list[float]] = field(default_factory=dict)
    peak_mb: float = 0.0


def addresses() -> dict[str, str]:
    """The requested pages: name -> address. Add a new page here or to `of_campaign`."""
    from django.urls import reverse

    from apps.accounts.web.keyset import cursor_at
    from apps.campaigns.models import Campaign

    ended = Campaign.objects.filter(
        state="finished", recipe__in=("", LARGE), workload__name__in=("oltp", LARGE)
    ).order_by("-created_at", "-pk")
    large, usual = (ended.filter(recipe=recipe).select_related("host") for recipe in (LARGE, ""))
    host = usual[0].host
    other = usual.filter(workload=usual[0].workload, factors=usual[0].factors).exclude(host=host)[0].host
    deep = urlencode({"cursor": cursor_at(("-created_at", "-pk"), usual.reverse()[30])})
    return {
        "home": reverse("home"),
        "campaigns": reverse("campaign_list"),
        "campaigns, nearly the last": f"{reverse('campaign_list')}?{deep}",
        "hosts": reverse("host_list"),
        "host": reverse("host_detail", args=[host.name]),
        "host, its queue": reverse("host_queue", args=[host.name]),
        "host, what was run again and again": reverse("host_baselines", args=[host.name]),
        "timeline": reverse("timeline"),
        "timeline of a host": f"{reverse('timeline')}?host={host.pk}",
        "API campaigns": f"{API}campaigns/",
        "API campaigns, nearly the last": f"{API}campaigns/?{deep}",
        "API runs": f"{API}runs/",
        "API runs of a host": f"{API}runs/?host={host.pk}",
        "dashboard": reverse("dashboard"),
        **of_comparison("two hosts compared", [f"host:{each.name}" for each in (host, other)]),
        **of_campaign("campaign", usual[0]),
        **(of_campaign(f"campaign of {large[0].runs.count()}", large[0]) if large else {}),
    }


def fill_pages(state: Path) -> dict[str, str]:
    """Adds the rows of a team, unless `state` has them already: {name: address} of all pages."""
    from apps.accounts.models import User
    from tests.documents.pages import pages, pages_of_fleets
    from tests.rows import fleets, populate

    known = state / "pages.pickle"
    if not known.exists():
        team = populate.team()
        User.objects.filter(pk=team["admin"].pk).update(may_run_commands=True)  # for a workload of the history
        listed = [*pages(team), *pages_of_fleets(fleets.team(team["operator"]))]
        known.write_bytes(pickle.dumps({f"page {name}": url for name, url, _ in listed}))
    return dict(pickle.loads(known.read_bytes()))


def of_campaign(name: str, campaign: Any) -> dict[str, str]:
    from django.urls import reverse

    from apps.accounts.web.keyset import cursor_at

    last, *_, nearly = campaign.runs.order_by("-position")[:20]
    labels = list(dict.fromkeys(run.label for run in campaign.runs.filter(outcome="ok").order_by("position")[:100]))
    page, key = reverse("campaign_detail", args=[campaign.pk]), campaign.pk
    runs = urlencode({"campaign": key, "cursor": cursor_at(("campaign_id", "position", "pk"), nearly)})
    return {
        name: page,
        f"{name}, its last runs": f"{page}?after={nearly.position}",
        f"{name}, its chart as a table": f"{page}?view=table",
        f"{name}, chart.json": reverse("campaign_figure", args=[key]),
        f"{name}, explored": reverse("campaign_explore", args=[key]),
        f"{name}, explored, chart.json": reverse("campaign_explore_figure", args=[key]),
        **of_comparison(f"{name}, two levels compared", [f"level:{key}:{label}" for label in labels[:2]]),
        f"{name}, its last run": reverse("run_detail", args=[last.pk]),
        f"API {name}": f"{API}campaigns/{key}/",
        f"API {name}, results": f"{API}campaigns/{key}/results/",
        f"API {name}, runs": f"{API}runs/?campaign={key}",
        f"API {name}, its last runs": f"{API}runs/?{runs}",
        f"API {name}, measurements": f"{API}measurements/?campaign={key}",
    }


def of_comparison(name: str, sides: list[str]) -> dict[str, str]:
    from django.urls import reverse

    query = urlencode({"of": sides}, doseq=True)
    return {
        name: f"{reverse('compare')}?{query}",
        f"{name}, chart.json": f"{reverse('compare_figure', args=['runs'])}?{query}",
    }


def session() -> str:
    """The session key of a user who may see everything."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

    from apps.accounts.models import User
    from apps.accounts.sessions import SessionStore

    user, store = User.objects.get(username="ada"), SessionStore()
    store[SESSION_KEY], store[BACKEND_SESSION_KEY] = str(user.pk), "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


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
        "beat: looks of stop rules": interim_analyses.run_due_analyses,
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


def peak_mb(sid: int) -> float:
    """Of the process of the web server that needed most, since it began."""
    statuses = [Path(f"/proc/{process.pid}/status").read_text() for process in processes.in_session(sid)]
    return (
        max(int(line.split()[1]) for text in statuses for line in text.splitlines() if line.startswith("VmHWM")) / 1024
    )


def cpu_ms(sid: int) -> float:
    """CPU time of the processes of a session, in steps of 10 ms."""
    stats = [
        Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        for process in processes.in_session(sid)
    ]
    return sum(1000 * (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") for stat in stats)


def drawn(base_url: str, cookie: str, paths: dict[str, str], times: int) -> dict[str, list[float]]:
    """Milliseconds from the request of the figure until Plotly had drawn it, in Chromium."""
    from playwright.sync_api import sync_playwright

    from tests.session.needs import find_browser

    durations: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=CHROMIUM)
        context = browser.new_context(base_url=base_url, viewport={"width": 1280, "height": 900})
        context.add_cookies([{"name": "sessionid", "value": cookie, "url": base_url}])
        page = context.new_page()
        page.add_init_script(WATCH)
        for name, path in paths.items():
            for _ in range(times):
                page.goto(path)
                durations.setdefault(name, []).append(float(page.evaluate(ASK)))
        browser.close()
    return durations


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
            stage.drawn = drawn(stack.base_url, cookie, charts, max(5, times // 4))
        stage.peak_mb = peak_mb(stack.supervisor.pid("web"))
    finally:
        stack.supervisor.end("web")
    return stage


def table(stages: list[Stage]) -> str:
    """Markdown: a line for each page, with p50, p95 and queries at each stage, and how much dearer the last is."""
    heads = [
        "p50, p95 in ms (CPU in ms, queries, kB)",
        *(stage.title for stage in stages),
        "p95 of the last to the first",
    ]
    lines = [_line(heads), "|---" * len(heads) + "|"]
    for name in stages[-1].pages:
        own = [stage.pages.get(name) for stage in stages]
        cells = [
            f"{each.p50:.0f}, {each.p95:.0f} ({each.cpu:.0f}, {each.queries}, {each.size / 1000:.0f})" if each else ""
            for each in own
        ]
        known = [each.p95 for each in own if each]
        lines.append(_line([name, *cells, f"{known[-1] / known[0]:.2f}" if len(known) > 1 else ""]))
    for name in stages[-1].drawn:
        times = [stage.drawn.get(name) for stage in stages]
        cells = [f"{statistics.median(each):.0f}, {max(each):.0f}" if each else "" for each in times]
        lines.append(_line([f"{name}, chart drawn: p50, largest", *cells, ""]))
    lines.append(_line(["peak memory of a web process", *(f"{stage.peak_mb:.0f} MB" for stage in stages), ""]))
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def failures(stages: list[Stage]) -> list[str]:
    slow = [
        f"{stage.title}: {page_times.page} {page_times.p95:.0f} ms"
        for stage in stages
        for page_times in stage.pages.values()
        if page_times.p95 > AIM_MS
    ]
    late = [
        f"{stage.title}: {name} is drawn after {max(times):.0f} ms"
        for stage in stages
        for name, times in stage.drawn.items()
        if max(times) > AIM_DRAWN_MS
    ]
    return [*slow, *late]


def firsts(stage: Stage) -> Iterator[str]:
    """Durations of first requests, whose results are cached for later ones."""
    for name, page_times in stage.pages.items():
        if page_times.first > 2 * page_times.p95:
            yield f"  {name}, the first time: {page_times.first:.0f} ms"


@contextmanager
def running(state: Path | None) -> Iterator[Stack]:
    """PostgreSQL and Valkey, and on request the web server. No worker processes the runs."""
    with tempfile.TemporaryDirectory(prefix="pg-pages-") as fresh:
        where = state or Path(fresh)
        where.mkdir(exist_ok=True)
        os.environ["PROVING_API_PER_USER_MIN"] = "0"  # one user asks for all
        with Supervisor(where) as supervisor:
            stack = Stack(supervisor)
            stack.start_stores()
            stack.manage(*commands.MIGRATE[1:])
            stack.manage("runtime_role", RUNTIME_USER, stdin=stack.postgres.runtime_password)
            stack.manage("collectstatic", "--noinput", env=stack.static_root)
            os.environ.update(stack.environment())
            django.setup()
            yield stack


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pages", description=__doc__)
    parser.add_argument("--million", action="store_true", help="a third stage, of a million runs")
    parser.add_argument("--times", type=int, default=TIMES, help=f"that each page is asked for ({TIMES})")
    parser.add_argument("--no-browser", action="store_true", help="without Chromium")
    parser.add_argument("--state", type=Path, help="a directory that keeps the database for the next time")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    stages = []
    with running(options.state) as stack:
        from apps.campaigns.models import Run
        from tests.rows import history

        others = fill_pages(stack.state)
        fills = [("10 000 runs", FEW, False), ("13 554 in one campaign", FEW, True)]
        fills += [("1 000 000 runs", MANY, True)] if options.million else []
        if Run.objects.count() >= MANY:
            fills = fills[-1:]
        for title, runs, large in fills:
            history.fill(runs, large=large)
            stages.append(measure(stack, title, others, options.times, not options.no_browser))
            print("\n".join([title, *firsts(stages[-1])]))
    print(table(stages))
    for miss in failures(stages):
        print(f"misses its aim: {miss}")
    return 1 if failures(stages) else 0


if __name__ == "__main__":
    sys.exit(main())
