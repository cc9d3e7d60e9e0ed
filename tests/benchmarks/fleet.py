"""The cost of following many hosts at once: python -m tests.benchmarks.fleet --sizes 10 50 100 200 (as root).

One dispatcher process, real SSH, the real agent on each simulated host, and a workload that only sleeps while the
collectors of a host without PostgreSQL take a sample each second. Triggers in PostgreSQL record how late ticks and
events are. The machine is server and hosts at once, so CPU time is read by process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import django

from embedded.stack import Stack
from embedded.supervisor import Supervisor
from tests.benchmarks import account
from tests.servers import remote

if TYPE_CHECKING:
    from apps.accounts.models import User
    from apps.campaigns.models import Campaign
    from apps.hosts.models import Host

NOTES = """
create table bench_tick (at timestamptz default clock_timestamp(), lag_s float8);
create table bench_event (at timestamptz default clock_timestamp(), lag_s float8);
create function bench_tick() returns trigger language plpgsql as $$
begin
  insert into bench_tick (lag_s) values (extract(epoch from clock_timestamp() - old.next_tick_at));
  return null;
end $$;
create function bench_event() returns trigger language plpgsql as $$
begin
  insert into bench_event (lag_s) values (extract(epoch from clock_timestamp() - new.at));
  return null;
end $$;
create trigger bench_tick after update of claim on campaigns_run for each row
  when (old.claim is distinct from new.claim) execute function bench_tick();
create trigger bench_event after insert on campaigns_runevent for each row execute function bench_event();
"""
FACTOR = {"name": "settings", "levels": [{"label": "as they are", "set": {}}]}
SOURCES = ["cpu", "memory"]
LIMIT_S = 600.0
PARTS = ("dispatcher", "worker", "postgres", "valkey", "beat")


@dataclass
class Row:
    """What so many hosts came to. Lags in seconds; cpu in shares of one cpu."""

    hosts: int
    running_s: float = 0.0
    ended_s: float = 0.0
    errors: int = 0
    ticks: list[float] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)


class Bench:
    """The running stack, and the hosts."""

    def __init__(self, stack: Stack, hosts: list[Host], by: User, window_s: float, mark: str) -> None:
        self._stack, self._hosts, self._by, self._window_s = stack, hosts, by, window_s
        self._marks = {"pg-agent-run": "runs", mark: "links", "sshd: ": "sshd"}

    def measure(self, count: int) -> Row:
        """So many runs at once: until all run, a while of that, and until all are cancelled and their hosts free."""
        row, campaigns = Row(count), [self._draft(host) for host in self._hosts[:count]]
        began = time.monotonic()
        self._start(campaigns)
        self._wait(lambda: self._runs(campaigns).filter(agent_state="RUNNING").count() == count)
        row.running_s = time.monotonic() - began
        time.sleep(30.0)  # the second tick of each has begun
        self._measure_window(row)
        began = time.monotonic()
        self._cancel(campaigns)
        self._wait(lambda: not self._runs(campaigns).exclude(state="ended").exists())
        row.ended_s = time.monotonic() - began
        ended = self._runs(campaigns)
        row.errors = count - ended.filter(outcome="cancelled", manifest__clean=True).count()
        return row

    def _draft(self, host: Host) -> Campaign:
        from apps.campaigns import services
        from apps.campaigns.design.steps import single
        from apps.campaigns.library import workloads

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

    def _start(self, campaigns: list[Campaign]) -> None:
        """All with one commit."""
        from django.db import transaction

        from apps.campaigns import services

        with transaction.atomic():
            for campaign in campaigns:
                services.start_campaign(campaign, by=self._by)

    def _cancel(self, campaigns: list[Campaign]) -> None:
        from apps.campaigns import services

        for campaign in campaigns:
            services.cancel_campaign(campaign, by=self._by)

    def _runs(self, campaigns: list[Campaign]) -> Any:
        from apps.campaigns.models import Run

        return Run.objects.filter(campaign__in=campaigns)

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not done():
            self._stack.supervisor.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"not within {LIMIT_S:g} s; see {self._stack.state}/log")
            time.sleep(0.5)

    def _shares(self) -> dict[str, account.Share]:
        return account.shares({part: self._stack.supervisor.pid(part) for part in PARTS}, self._marks)

    def _measure_window(self, row: Row) -> None:
        """Cpu and lags of the time that now begins, and the memory at its end."""
        _sql("truncate bench_tick, bench_event")
        before, began = self._shares(), time.monotonic()
        time.sleep(self._window_s)
        after, took = self._shares(), time.monotonic() - began
        row.ticks, row.events = ([lag for (lag,) in _sql(f"select lag_s from bench_{name}")] for name in KINDS)
        row.cpu = {part: (share.cpu_s - before[part].cpu_s) / took for part, share in after.items()}
        row.memory = {part: share.pss_mb for part, share in after.items()}


KINDS = ("tick", "event")


def _sql(text: str) -> list[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else []


def _quantiles(values: list[float]) -> str:
    if len(values) < 2:
        return "too few"
    cuts = statistics.quantiles(values, n=20)
    return f"p50 {cuts[9] * 1000:.0f} ms, p95 {cuts[18] * 1000:.0f} ms, max {max(values) * 1000:.0f} ms"


def report(row: Row) -> str:
    """A few lines of figures."""
    server = ", ".join(f"{part} {row.cpu.get(part, 0.0):.1%}" for part in PARTS)
    per_host = 1000 / row.hosts
    share = {part: row.cpu.get(part, 0.0) * per_host for part in ("dispatcher", "postgres", "links", "runs", "sshd")}
    memory = {part: row.memory.get(part, 0.0) / row.hosts for part in ("dispatcher", "links", "runs", "sshd")}
    return "\n".join(
        [
            f"{row.hosts} hosts: all running after {row.running_s:.1f} s, errors {row.errors}, "
            f"all cancelled and clean after {row.ended_s:.1f} s",
            f"  ticks begin late by {_quantiles(row.ticks)} (n {len(row.ticks)})",
            f"  events are stored after {_quantiles(row.events)} (n {len(row.events)})",
            f"  shares of one cpu: {server}",
            "  per host, ms of cpu a second: " + ", ".join(f"{part} {ms:.2f}" for part, ms in share.items()),
            f"  dispatcher {row.memory.get('dispatcher', 0.0):.0f} MB; per host, MB: "
            + ", ".join(f"{part} {mb:.2f}" for part, mb in memory.items()),
        ]
    )


def growth(rows: list[Row]) -> str:
    """How the dispatcher's share of a host changes from the smallest fleet to the largest."""
    first, last = rows[0], rows[-1]
    cpu = (last.cpu["dispatcher"] / last.hosts) / (first.cpu["dispatcher"] / first.hosts)
    more = (last.memory["dispatcher"] - first.memory["dispatcher"]) / max(1, last.hosts - first.hosts)
    return (
        f"from {first.hosts} to {last.hosts} hosts: the dispatcher's cpu per host x {cpu:.2f}, "
        f"{more:.2f} MB for each further host"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fleet", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 50, 100, 200])
    parser.add_argument("--window", type=float, default=60.0, help="seconds that are measured while all run (60)")
    options = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cpus", flush=True)
    with remote.short_dir() as state, Supervisor(state / "s") as supervisor:
        stack = Stack(supervisor)
        stack.start_stores()
        os.environ.update(stack.environment())
        django.setup()
        stack.manage("migrate", "--noinput")
        supervisor.start(stack.worker, stack.dispatcher, stack.beat)
        rows = _measure(stack, options.sizes, options.window)
    print(growth(rows), f"load after: {os.getloadavg()[0]:.1f}", sep="\n")
    return int(any(row.errors for row in rows))


def _measure(stack: Stack, sizes: list[int], window_s: float) -> list[Row]:
    from apps.accounts.models import Role, User
    from tests.servers import simulated

    _sql(NOTES)
    ada = User.objects.create_user("ada", password="correct horse battery", role=Role.ADMIN, may_run_commands=True)
    rows = []
    with remote.short_dir() as root, simulated.fleet(root) as fleet:
        hosts = simulated.register(fleet, max(sizes), ada)
        bench = Bench(stack, hosts, ada, window_s, str(fleet.root))
        for size in sizes:
            rows.append(bench.measure(size))
            print(report(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
