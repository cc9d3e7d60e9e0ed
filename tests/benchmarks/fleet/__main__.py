"""The cost of following many hosts at once: python -m tests.benchmarks.fleet --sizes 10 50 200 1000 (as root).

Real SSH for all hosts. The first --real of them have OpenSSH's server and the real agent, whose program only sleeps
while the collectors of a host without PostgreSQL take a sample each second. One process answers for all others with the
same protocol (simulator.py). Triggers in PostgreSQL record how late ticks and events are. The machine is server and
hosts at once, so CPU time is read by process.

--dispatchers 4 follows them from four processes. --kill ends one of them with SIGKILL in the middle of each
measurement: others adopt its runs, and each event has to be stored once.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import os
import sys

import django

from embedded import commands
from embedded.servers.postgres import RUNTIME_USER
from embedded.stack import Stack
from embedded.supervisor import Service, Supervisor
from tests.benchmarks.fleet.report import Row, model, report
from tests.servers import remote

RUNS_AT_ONCE = 256  # the server's default
RESERVE = 1.2  # free threads of dispatchers, because they do not divide the runs evenly


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fleet", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--real", type=int, default=5, help="hosts with OpenSSH's server and the real agent (5)")
    parser.add_argument("--dispatchers", type=int, default=1, help="processes that follow runs (1)")
    parser.add_argument("--kill", action="store_true", help="kill a dispatcher in the middle of each measurement")
    parser.add_argument("--window", type=float, default=60.0, help="seconds that are measured while all run (60)")
    options = parser.parse_args()
    if options.real < 1:
        parser.error(f"--real: {options.real} is less than 1; the simulated hosts copy the facts of a real one")
    if options.kill and options.dispatchers < 2:
        parser.error("--kill: with one dispatcher, no other could adopt its runs; add --dispatchers 2")
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cpus", flush=True)
    with remote.short_dir() as state, Supervisor(state / "s") as supervisor:
        stack = Stack(supervisor)
        stack.start_stores()
        os.environ.update(stack.environment())
        django.setup()
        stack.manage(*commands.MIGRATE[1:])
        stack.manage("runtime_role", RUNTIME_USER, stdin=stack.postgres.runtime_password)
        working = options.dispatchers - options.kill
        at_once = max(RUNS_AT_ONCE, math.ceil(RESERVE * max(options.sizes) / working))
        dispatchers = [_dispatcher(stack, number, at_once) for number in range(1, options.dispatchers + 1)]
        supervisor.start(stack.worker, stack.beat, *dispatchers)
        rows = _measure(stack, [each.name for each in dispatchers], options)
    if len(rows) > 1:
        print(model(rows))
    print(f"load after: {os.getloadavg()[0]:.1f}")
    return int(any(row.errors or row.miscounted for row in rows))


def _dispatcher(stack: Stack, number: int, at_once: int) -> Service:
    name = f"dispatcher{number}"
    argv = [argument.replace("dispatcher@", f"{name}@") for argument in stack.dispatcher.argv]
    env = {**stack.dispatcher.env, "PROVING_RUNS_AT_ONCE": str(at_once)}
    ready = functools.partial(_is_ready, stack.supervisor, name)
    return dataclasses.replace(stack.dispatcher, name=name, argv=argv, env=env, ready=ready)


def _is_ready(supervisor: Supervisor, name: str) -> bool:
    return " ready." in supervisor.log(name).read_text(errors="replace")


def _measure(stack: Stack, dispatchers: list[str], options: argparse.Namespace) -> list[Row]:
    from apps.accounts.models import Role, User
    from tests.benchmarks.fleet import hosts, lateness
    from tests.benchmarks.fleet.bench import Bench
    from tests.servers import simulated

    lateness.sql(lateness.NOTES)
    ada = User.objects.create_user("ada", password="correct horse battery", role=Role.ADMIN, may_run_commands=True)
    rows = []
    with remote.short_dir() as root, simulated.fleet(root) as fleet:
        registered = hosts.register(fleet, options.real, max(options.sizes), ada, stack.supervisor)
        bench = Bench(stack.supervisor, dispatchers, registered, options.real, ada, str(fleet.root))
        for size in options.sizes:
            rows.append(bench.measure(size, options.window, kill=options.kill))
            print(report(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
