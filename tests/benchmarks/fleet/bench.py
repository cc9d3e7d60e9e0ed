"""The runs that are followed, and the time in which they are measured."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from embedded.supervisor import Supervisor
from tests.benchmarks import account
from tests.benchmarks.fleet.lateness import sql
from tests.benchmarks.fleet.report import PARTS, Row

FACTOR = {"name": "settings", "levels": [{"label": "as they are", "set": {}}]}
SOURCES = ["cpu", "memory"]
LIMIT_S = 600.0
SETTLE_S = 30.0  # until each run is in its second tick


class Bench:
    """The running server, and the hosts, the first `real` of which are real. `mark`: what the command line of a real
    agent has that answers the server."""

    def __init__(
        self, supervisor: Supervisor, dispatchers: list[str], hosts: list[Host], real: int, by: User, mark: str
    ) -> None:
        self._supervisor, self._dispatchers, self._hosts, self._by = supervisor, dispatchers, hosts, by
        self._real, self._marks = real, {"pg-agent-run": "runs", mark: "links", "sshd: ": "sshd"}

    def measure(self, count: int, window_s: float, *, kill: bool) -> Row:
        """Start a run on each of `count` hosts, measure for a time while all are active, then cancel all and wait until
        their hosts are free. `kill`: whether a dispatcher is killed in the middle of that time."""
        sql("truncate bench_tick, bench_event")
        row, campaigns = Row(count, min(self._real, count)), [self._draft(host) for host in self._hosts[:count]]
        began = time.monotonic()
        self._start(campaigns)
        runs = Run.objects.filter(campaign__in=campaigns)
        self._wait(lambda: runs.filter(agent_state="RUNNING").count() == count)
        row.running_s = time.monotonic() - began
        time.sleep(SETTLE_S)
        self._measure_window(row, window_s, kill=kill)
        began = time.monotonic()
        for campaign in campaigns:
            services.cancel_campaign(campaign, by=self._by)
        self._wait(lambda: not runs.exclude(state="ended").exists())
        row.ended_s = time.monotonic() - began
        row.errors = count - runs.filter(outcome="cancelled", manifest__clean=True).count()
        row.miscounted = count - _complete(campaigns)
        return row

    def _draft(self, host: Host) -> Campaign:
        figures = {"patterns": "(?P<naps>[0-9]+)", "figures": {"naps": {"unit": "naps", "better": "higher"}}}
        options = {"program": "sleep", "arguments": "3600", "limit_s": 7200, **figures}
        workload = workloads.save_workload("sleeps", single("command", options), by=self._by)
        fields: dict[str, Any] = {
            "name": f"sleep on {host}",
            "question": "what does it cost to follow?",
            "metric": "naps",
        }
        return services.create_campaign(
            by=self._by, host=host, workload=workload, factors=[FACTOR], repetitions=1, sources=SOURCES, **fields
        )

    @transaction.atomic
    def _start(self, campaigns: list[Campaign]) -> None:
        """All with one commit."""
        for campaign in campaigns:
            services.start_campaign(campaign, by=self._by)

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not done():
            self._supervisor.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"not within {LIMIT_S:g} s; see {self._supervisor.state}/log")
            time.sleep(0.5)

    def _shares(self, names: list[str]) -> dict[str, account.Share]:
        return account.shares({name: self._supervisor.pid(name) for name in names}, self._marks)

    def _measure_window(self, row: Row, window_s: float, *, kill: bool) -> None:
        """CPU time and lags of the time that now begins, and the memory at its end."""
        parts = PARTS[1:] if len(self._hosts) > self._real else PARTS[1:-1]
        names = [*self._dispatchers, *parts]
        began_at, before, began = time.time(), self._shares(names), time.monotonic()
        time.sleep(window_s / 2)
        ended, killed_at = {}, None
        if kill:
            victim = names.pop(0)
            ended, killed_at = {victim: self._shares([victim])[victim]}, time.time()
            os.kill(self._supervisor.pid(victim), signal.SIGKILL)
        time.sleep(window_s / 2)
        row.load = os.getloadavg()[0]
        after, took = {**self._shares(names), **ended}, time.monotonic() - began
        for name, share in after.items():
            part = "dispatcher" if name in self._dispatchers else name
            row.cpu[part] = row.cpu.get(part, 0.0) + (share.cpu_s - before[name].cpu_s) / took
            row.memory[part] = row.memory.get(part, 0.0) + share.pss_mb
        _read_lags(row, began_at, killed_at)


def _read_lags(row: Row, began_at: float, killed_at: float | None) -> None:
    """Read what the triggers have recorded since `began_at`."""
    row.events = [lag for (lag,) in sql("select lag_s from bench_event where at >= to_timestamp(%s)", began_at)]
    columns = "extract(epoch from at)::float8, lag_s, is_adopted"
    for at, lag, is_adopted in sql(f"select {columns} from bench_tick where at >= to_timestamp(%s)", began_at):
        if is_adopted and killed_at is not None:
            row.adopted.append(at - killed_at)
        else:
            row.ticks.append(lag)


def _complete(campaigns: list[Campaign]) -> int:
    """How many runs have each event that their host wrote, stored once."""
    stored = dict(sql("select run_id, count(*) from bench_event group by run_id"))
    runs = Run.objects.filter(campaign__in=campaigns).values_list("pk", "last_seq", "manifest")
    return sum(stored.get(pk) == last_seq == (manifest or {}).get("last_seq") for pk, last_seq, manifest in runs)
