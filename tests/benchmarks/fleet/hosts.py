"""The hosts of the benchmark: a sample with OpenSSH's server and the real agent, and simulated ones in one process."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from apps.accounts.models import User
from apps.hosts.access import ssh
from apps.hosts.models import Host
from embedded.servers.loopback import Loopback
from embedded.supervisor import Supervisor
from tests.benchmarks.fleet.simulator import machine_id
from tests.servers import simulated

SIMULATOR = "hosts"


def register(fleet: simulated.Fleet, real: int, count: int, by: User, supervisor: Supervisor) -> list[Host]:
    """Start the simulated hosts. Returns `count` hosts that are ready, the first `real` of which are real."""
    hosts = simulated.register(fleet, min(real, count), by)
    if real < count:
        hosts += _simulate(hosts[0], count - real, by, supervisor)
    return hosts


def _simulate(first: Host, count: int, by: User, supervisor: Supervisor) -> list[Host]:
    state = supervisor.state / SIMULATOR
    state.mkdir()
    server = Loopback(state)
    server.prepare()
    assert first.identity is not None
    server.authorize(first.identity.public_key)
    with ssh.Link(first) as link:
        known = {"facts": first.facts_history.get().data, "hello": link.hello}
    (state / "host.json").write_text(json.dumps(known))
    argv = [sys.executable, "-m", "tests.benchmarks.fleet.simulator", str(state)]
    supervisor.start(dataclasses.replace(server.service, name=SIMULATOR, argv=argv))
    return [_add(server, first, number, by) for number in range(count)]


def _add(server: Loopback, first: Host, number: int, by: User) -> Host:
    home = Path("/nowhere", f"s{number:04d}")  # nothing is written there
    fields = {"user": server.user, "identity": first.identity, "python": first.python}
    fields |= {"spool_dir": str(home / "spool"), "data_dir": str(home / "clusters"), "pg_bin_dirs": first.pg_bin_dirs}
    host = simulated.add(home.name, server.port, server.host_key, by, **fields)
    simulated.copy_check(first, host, machine_id(host.spool_dir))
    return host
