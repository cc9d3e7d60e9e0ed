"""Three hosts flood while five honest ones run campaigns: python -m tests.hostile --minutes 10 (as root).

The first minute is quiet, with the honest hosts alone. Then the others flood, each run in another way (flood.py), and
each quarantined host is released at once, so that the flood continues. For both phases it prints the lateness of ticks,
the durations of pages, the peak memory of the server's processes, and the number of added rows.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from embedded import commands, processes
from embedded.stack import RUNTIME_USER, Stack
from embedded.supervisor import Supervisor
from tests.benchmarks.fleet import lateness
from tests.benchmarks.load import Visitor
from tests.servers import remote

if TYPE_CHECKING:
    from apps.accounts.models import User
    from apps.campaigns.models import Campaign
    from apps.hosts.models import Host

HONEST, HOSTILE = 5, 3
SETTLE_S = 20.0  # the first runs have begun
PARTS = ("dispatcher", "worker", "web")
THINK_S, USERS = 0.5, 2
TABLES = ("RunEvent", "Artefact", "Trouble", "Facts", "AuditEntry", "Series", "Block")


@dataclass
class Phase:
    """What was seen: seconds of lateness, milliseconds of pages, peak MB of each part, rows that were added."""

    title: str
    ticks: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    peak_mb: dict[str, float] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    size_mb: float = 0.0
    ended: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        memory = ", ".join(f"{part} {mb:.0f} MB" for part, mb in self.peak_mb.items())
        rows = ", ".join(f"{name} {count:,}" for name, count in self.rows.items())
        ends = "".join(f"\n    {count} runs: {cause}" for cause, count in self.ended.most_common())
        return (
            f"{self.title}\n  ticks of honest hosts late by {lateness.quantiles(self.ticks)} (n {len(self.ticks)})\n"
            f"  pages take {lateness.quantiles([ms / 1000 for ms in self.pages])} (n {len(self.pages)}), "
            f"errors {dict(self.errors) or 'none'}\n  peak memory: {memory}\n"
            f"  rows added: {rows}; database grew by {self.size_mb:.0f} MB{ends}"
        )


class Memory(threading.Thread):
    """Peak of the resident memory of the processes of each part together, read every half second."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(daemon=True)
        self._stack, self.peak, self.over = stack, dict.fromkeys(PARTS, 0.0), threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.5):
            for part in PARTS:
                pid = self._stack.supervisor.pid(part)
                mb = sum(_rss_mb(each) for each in [pid, *(child.pid for child in processes.descendants(pid))])
                self.peak[part] = max(self.peak[part], mb)


def _rss_mb(pid: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)
    return 0.0


def _rows() -> dict[str, int]:
    from django.apps import apps

    models = {model.__name__: model for model in apps.get_models()}
    return {name: models[name]._base_manager.count() for name in TABLES}


def _size_mb() -> float:
    return float(lateness.sql("select pg_database_size(current_database())")[0][0]) / 1e6


def _draft(host: Host, by: User, seconds: int, repetitions: int) -> Campaign:
    """Runs that sleep on a host."""
    from apps.campaigns import services
    from apps.campaigns.design.steps import single
    from apps.campaigns.library import workloads
    from tests.benchmarks.fleet.bench import FACTOR, SOURCES

    figures = {"patterns": "(?P<naps>[0-9]+)", "figures": {"naps": {"unit": "naps", "better": "higher"}}}
    options = {"program": "sh", "arguments": f"-c\nsleep {seconds}; echo 1", "limit_s": 7200, **figures}
    workload = workloads.save_workload("sleeps", single("command", options), by=by)
    fields: dict[str, Any] = {"factors": [FACTOR], "sources": SOURCES, "metric": "naps"}
    question = "is it disturbed?"
    campaign = services.create_campaign(
        by=by, host=host, name=f"on {host}", question=question, workload=workload, repetitions=repetitions, **fields
    )
    services.start_campaign(campaign, by=by)
    return campaign


def _make_hostile(host: Host, first: int) -> None:
    """Replace Python by a flooding agent; the facts are those of the honest host before."""
    from apps.hosts.models import Host as Hosts
    from tests.hostile import flood

    home = Path(host.spool_dir).parent
    plan, program = home / "plan.json", home / "python"
    plan.write_text(json.dumps({"facts": host.facts, "hello": {"machine_id": host.machine_id}, "first": first}))
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {flood.__file__} {plan} "$@"\n')
    program.chmod(0o755)
    Hosts.objects.filter(pk=host.pk).update(python=str(program))


def _release(hosts: list[Host]) -> None:
    """Release each quarantined host at once."""
    from apps.campaigns.execution import queue
    from apps.hosts.models import Host as Hosts
    from apps.hosts.models import Lease

    apart = Hosts.objects.filter(pk__in=[host.pk for host in hosts]).exclude(state=Hosts.State.READY)
    for host in apart:
        Hosts.objects.filter(pk=host.pk).update(state=Hosts.State.READY, state_reason="")
        if not Lease.objects.filter(machine_id=host.machine_id, run__isnull=False).exists():
            queue.arm_host(host.pk)


def _give_up(hosts: list[Host], by: User, after_s: float) -> None:
    """Give up each run that neither ends nor sends events."""
    from datetime import timedelta

    from django.utils import timezone

    from apps.campaigns.execution import run_end
    from apps.campaigns.models import Run
    from common.errors import ProvingError

    since = timezone.now() - timedelta(seconds=after_s)
    stuck = Run.objects.filter(host__in=hosts, state__in=["submitting", "running"], started_at__lt=since)
    for run in stuck.select_related("campaign", "host"):
        with suppress(ProvingError):
            run_end.give_up_run(run, by=by)


@contextmanager
def _measured(stack: Stack, phase: Phase, paths: dict[str, str], seconds: float) -> Iterator[None]:
    """Count visitors and memory while the caller waits."""
    from tests.benchmarks.pages.server import session

    lateness.sql("truncate bench_tick, bench_event")
    rows, size, memory = _rows(), _size_mb(), Memory(stack)
    ends = time.monotonic() + seconds
    visitors = [Visitor(number, stack.port, session(), paths, THINK_S, ends) for number in range(USERS)]
    for thread in (memory, *visitors):
        thread.start()
    yield
    for visitor in visitors:
        visitor.join(60)
        phase.pages += [taken for _, taken in visitor.taken]
        phase.errors += visitor.errors
    memory.over.set()
    memory.join()
    phase.peak_mb, phase.size_mb = memory.peak, _size_mb() - size
    phase.rows = {name: count - rows[name] for name, count in _rows().items()}
    phase.ticks = [lag for (lag,) in lateness.sql("select lag_s from bench_tick")]


def _flooded(hosts: list[Host]) -> Counter[str]:
    """What became of the runs of the hostile hosts, by cause."""
    from apps.campaigns.models import Run

    runs = Run.objects.filter(host__in=hosts, state="ended").values_list("outcome", "error__message")
    return Counter(f"{outcome}: {(message or '')[:110]}" for outcome, message in runs)


def _note_ticks_of(hosts: list[Host]) -> None:
    """PostgreSQL notes how late the ticks of these hosts begin."""
    keys = ", ".join(str(host.pk) for host in hosts)
    late = "when (old.claim is distinct from new.claim)"
    lateness.sql(
        lateness.NOTES.replace(late, f"when (old.claim is distinct from new.claim and new.host_id in ({keys}))")
    )


def _measure(stack: Stack, minutes: float, quiet_s: float) -> bool:
    """Print what was measured. True if an honest host had no run or a failed one, or if a page had an error."""
    from django.urls import reverse

    from apps.accounts.models import Role, User
    from apps.campaigns.models import Run
    from tests.servers import simulated

    ada = User.objects.create_user("ada", password="correct horse battery", role=Role.ADMIN, may_run_commands=True)
    phases = [Phase(f"quiet: {HONEST} honest hosts, {quiet_s:.0f} s"), Phase(f"flood of {HOSTILE}, {minutes:g} min")]
    with remote.short_dir() as root, simulated.fleet(root) as made:
        hosts = simulated.register(made, HONEST + HOSTILE, ada)
        honest, hostile = hosts[:HONEST], hosts[HONEST:]
        campaigns = [_draft(host, ada, 15, 500) for host in honest]
        _note_ticks_of(honest)
        time.sleep(SETTLE_S)
        run = Run.objects.filter(campaign=campaigns[0]).order_by("position")[0]
        paths = {
            "home": reverse("home"),
            "hosts": reverse("host_list"),
            "campaigns": reverse("campaign_list"),
            "host": reverse("host_detail", args=[hostile[0]]),
            "campaign": reverse("campaign_detail", args=[campaigns[0].pk]),
            "run": reverse("run_detail", args=[run.pk]),
        }
        with _measured(stack, phases[0], paths, quiet_s):
            time.sleep(quiet_s)
        print(phases[0], flush=True)
        for number, host in enumerate(hostile):
            _make_hostile(host, first=2 * number)
            _draft(host, ada, 15, 500)
        with _measured(stack, phases[1], paths, 60 * minutes):
            ends = time.monotonic() + 60 * minutes
            while time.monotonic() < ends:
                time.sleep(1)
                _release(hostile)
                _give_up(hostile, ada, 60.0)
        phases[1].ended = _flooded(hostile)
        print(phases[1], flush=True)
        runs = Run.objects.filter(campaign__in=campaigns)
        done, failing = runs.filter(state="ended"), runs.exclude(state="ended").exclude(error=None)
        causes = Counter(done.values_list("outcome", "error__message"))
        print(f"runs of honest hosts: {dict(causes)}, sealed and clean {done.filter(manifest__clean=True).count()}")
        print(f"not ended, with an error: {dict(Counter(failing.values_list('error__message'))) or 'none'}")
        has_failed = done.exclude(outcome="ok").exists() or not done.exists()
    return has_failed or any(phase.errors for phase in phases)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the flood (10)")
    parser.add_argument("--quiet", type=float, default=60.0, help="seconds before it (60)")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cpus", flush=True)
    with remote.short_dir() as state, Supervisor(state / "s") as supervisor:
        stack = Stack(supervisor)
        stack.start_stores()
        os.environ.update(stack.environment())
        django.setup()
        stack.manage(*commands.MIGRATE[1:])
        stack.manage("runtime_role", RUNTIME_USER, stdin=stack.postgres.runtime_password)
        stack.manage("collectstatic", "--noinput", env=stack.static_root)
        supervisor.start(stack.web, stack.worker, stack.dispatcher, stack.beat)
        has_failed = _measure(stack, options.minutes, options.quiet)
    print(f"load after: {os.getloadavg()[0]:.1f}")
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
