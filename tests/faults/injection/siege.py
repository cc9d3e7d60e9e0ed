"""A running stack with killed, stopped and disconnected parts: its host is behind a proxy, its dispatcher has traps."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import redis

from embedded import processes
from embedded.demo import campaign
from embedded.errors import StackError
from embedded.servers.loopback import Loopback
from embedded.supervisor import Service
from tests.faults.counts.findings import Found
from tests.faults.injection import moments
from tests.faults.injection.matrix import loop_device
from tests.faults.injection.on_host import Victim
from tests.faults.injection.wire import Proxy
from tests.servers import ground, snapshot
from tests.session.alone import alone

# The service whose processes dispatch runs, and the one that does all else.
DISPATCHER, WORKER = "dispatcher", "worker"
PGBENCH = {"builtin": "select-only", "scale": 1, "clients": 2, "jobs": 1, "time_s": 1, "rate": 200, "progress_s": 1}
SERVER_CPU = {"settings.cpu_affinity.server": "0"}
GONE_S = 60.0


@dataclass(frozen=True)
class Knob:
    """What the runs of a siege set: the path in their settings, and the file of the kernel's."""

    path: str
    file: str


def sysctl(name: str) -> Knob:
    return Knob(f"settings.sysctl.{name}", "/proc/sys/" + name.replace(".", "/"))


def read_ahead(device: str) -> Knob:
    """The value of a device that only this test uses."""
    return Knob(f"settings.block_device.{device}.read_ahead_kb", f"/sys/block/{device}/queue/read_ahead_kb")


# What the runs of each test set, so that they can go on side by side.
SERVER, LINK = sysctl("net.ipv4.tcp_keepalive_intvl"), sysctl("net.ipv4.tcp_keepalive_time")
VALUES, EDITED = range(64, 104, 4), range(104, 124, 4)  # whole pages, for read_ahead_kb


class Behind(Loopback):
    """The demo's host, reached by another port."""

    def __init__(self, state: Path, port: int) -> None:
        super().__init__(state)
        self._port = port

    @property
    def port(self) -> int:
        return self._port


@dataclass
class Siege:
    """A stack under fire. `chance` is seeded; every method injects one fault, for real."""

    ground: ground.Ground
    proxy: Proxy
    chance: Random
    knob: Knob
    shared: bool = False  # others work on this machine: only what our runs can change is compared
    before: snapshot.Snapshot = field(default_factory=dict)

    # What is attacked

    @property
    def state(self) -> Path:
        return self.ground.stack.state

    @property
    def host(self) -> Victim:
        return Victim(self.ground.stack.loopback.home)

    @property
    def clusters(self) -> Path:
        return self.host.home / "clusters"

    def dispatcher(self, name: str = DISPATCHER, short: bool = True) -> Service:
        """The dispatcher's service, with traps."""
        plain: Service = getattr(self.ground.stack, DISPATCHER)
        env = {**plain.env, moments.ARMED: "1", **({moments.SHORT: "1"} if short else {})}
        argv = [*plain.argv, "--include=tests.faults.injection.trap", f"--hostname={name}@%h"]
        ready = plain.ready if name == DISPATCHER else lambda: True
        return replace(plain, name=name, argv=argv, env=env, ready=ready)

    def levels(self, *values: int, **other: str) -> list[dict[str, Any]]:
        """Of a factor: values of the knob, and other settings with each."""
        return [{"label": str(value), "set": {self.knob.path: value, **other}} for value in values]

    def start(self, repetitions: int = 1, **other: Any) -> str:
        """A campaign of 2 x `repetitions` runs of about a second, each with a setting of the kernel; its id.
        `other`: fields of the campaign, `kind` and `options` of its workload."""
        client = self.ground.client
        kind, options = other.pop("kind", "pgbench"), {**other.pop("options", PGBENCH)}
        fields = {"name": "besieged", "question": "is anything lost?", "host": self.ground.host["id"]} | other
        workload = client.post("workloads/", name=f"besieged-{kind}", kind=kind, options=options)
        factors = [{"name": "knob", "levels": self.levels(*VALUES[:2], **SERVER_CPU)}]
        planned = client.post(
            "campaigns/", **{"factors": factors, "workload": workload["id"], "repetitions": repetitions, **fields}
        )
        client.post(f"campaigns/{planned['id']}/start/")
        return str(planned["id"])

    # Faults

    def trap(self, moment: str) -> None:
        """The dispatcher dies when it comes to this moment; wait for `sprung`."""
        assert moment in moments.MOMENTS
        (self.state / "trap").write_text(moment)

    @property
    def sprung(self) -> bool:
        return not (self.state / "trap").exists()

    def kill(self, service: str) -> None:
        """SIGKILL to every process of a service at once."""
        os.killpg(self.ground.supervisor.pid(service), signal.SIGKILL)

    def kill_child(self, service: str) -> None:
        """SIGKILL to one process of its pool."""
        pid = self.ground.supervisor.pid(service)
        os.kill(self.chance.choice(processes.children(pid) or [pid]), signal.SIGKILL)

    def stop(self, service: str) -> None:
        os.killpg(self.ground.supervisor.pid(service), signal.SIGSTOP)

    def resume(self, service: str) -> None:
        os.killpg(self.ground.supervisor.pid(service), signal.SIGCONT)

    def flush(self) -> None:
        with redis.Redis(unix_socket_path=str(self.ground.stack.valkey.socket)) as client:
            client.flushall()

    def kill_postgres(self) -> None:
        """kill -9 of the postmaster, and in half of the cases of its backends. The supervisor restarts it."""
        pid = self.ground.supervisor.pid("postgres")
        backends = processes.descendants(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)  # until then PostgreSQL takes it for alive
        if self.chance.random() < 0.5:
            processes.send(backends, signal.SIGKILL)
        time.sleep(self.chance.uniform(0, 2))
        assert not processes.wait_gone(lambda: [p for p in backends if processes.alive(p)], GONE_S)
        self.ground.supervisor.start(self.ground.stack.postgres.service)

    def kill_sshd(self) -> None:
        """Kill the host's SSH server and every connection. The supervisor restarts it."""
        pid = self.ground.supervisor.pid("sshd")
        os.kill(pid, signal.SIGKILL)
        processes.send(self.host.connections(), signal.SIGKILL)
        self.ground.supervisor.start(self.ground.stack.loopback.service)

    def edit(self) -> None:
        """An admin changes a value that the run has set; it must remain."""
        path = Path(self.knob.file)
        path.write_text(str(self.chance.choice(EDITED)))
        self.before[str(path)] = path.read_text()

    def upgrade(self) -> None:
        """The server becomes another release whose agent has another digest; dispatchers are replaced."""
        (self.state / "agent-salt").write_text(str(self.chance.random()))
        self.kill(DISPATCHER)

    def restart(self) -> None:
        """The whole server, its stores with it, as when its machine is started again; the host notices nothing."""
        stack, supervisor = self.ground.stack, self.ground.supervisor
        for name in ("web", "beat", WORKER, DISPATCHER, "valkey", "postgres"):
            supervisor.end(name)
        stack.start_stores()
        supervisor.start(stack.web, stack.worker, self.dispatcher(), stack.beat)

    def second_beat(self) -> None:
        plain = self.ground.stack.beat
        argv = [*plain.argv[:-1], f"--schedule={self.state}/second-schedule"]
        self.ground.supervisor.start(replace(plain, name="beat2", argv=argv, ready=lambda: True))

    # What became of it

    def wait(self, done: Callable[[], bool], timeout_s: float = 180) -> None:
        """Poll until `done`, and restart killed services as the supervisor does for users."""
        deadline = time.monotonic() + timeout_s
        while not answered(done):
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {self.runs()}"
            self.ground.supervisor.check()
            time.sleep(0.2)

    def finish(self, campaign_id: str, timeout_s: float = 180) -> None:
        self.wait(lambda: bool(self.ground.client.get(f"campaigns/{campaign_id}/")["results_ready"]), timeout_s)

    def runs(self, campaign_id: str = "") -> list[dict[str, Any]]:
        which = f"?campaign={campaign_id}" if campaign_id else ""
        return list(self.ground.client.get(f"runs/{which}")["results"])

    @property
    def measuring(self) -> bool:
        """Whether the load of a run is active, read on the host because events can be late."""
        return bool(self.host.find("pgbench"))

    def audit(self, *campaigns: str) -> tuple[Found, dict[str, int], int]:
        """(counts, outcome -> runs, combinations that were measured once), by a separate process of the server."""
        command = f"from tests.faults.counts import audit; audit.main({', '.join(map(repr, campaigns))})"
        report = json.loads(self.ground.stack.manage("shell", "--no-imports", "-c", command).splitlines()[-1])
        return Found(**report["found"]), report["outcomes"], report["cells"]

    def take_snapshot(self) -> snapshot.Snapshot:
        """The state of this machine that a run could leave changed; only processes and mounts of this stack."""
        ours = str(self.clusters)
        # Only what others do not change is compared on a shared machine, so their changes need not end first.
        with nullcontext() if self.shared else alone():
            state = snapshot.take([ours])
        state["mounts"] = "".join(line for line in state["mounts"].splitlines(keepends=True) if str(self.state) in line)
        own = {name: text for name, text in state.items() if not name.startswith("process ") or ours in text}
        return {name: text for name, text in own.items() if self._could_be_ours(name)} if self.shared else own

    def left(self) -> list[str]:
        return snapshot.left(self.before, self.take_snapshot)

    def _could_be_ours(self, name: str) -> bool:
        return name in (self.knob.file, "mounts") or name.startswith(("process ", str(self.clusters)))


def answered(done: Callable[[], bool]) -> bool:
    """False also while the web server, or its database, is away."""
    try:
        return done()
    except StackError as error:
        if refused(error):
            raise
        return False


def refused(error: StackError) -> bool:
    """Whether the server has processed the request and refused it."""
    return bool(re.search(r": 4\d\d ", str(error)))


@contextmanager
def prepare(seed: int, knob: Knob, short: bool = True, shared: bool = False) -> Iterator[Siege]:
    """A stack behind a proxy with a checked host and a first finished run; everything ends with the block."""
    with ground.prepare() as ready, Proxy(ready.stack.loopback.port) as proxy:
        ready.supervisor.end(DISPATCHER)
        siege = Siege(ready, proxy, Random(seed), knob, shared)
        ready.supervisor.start(siege.dispatcher(short=short))
        ready.host = campaign.register(ready.client, Behind(ready.stack.state, proxy.port))
        ready.client.patch(f"hosts/{ready.host['id']}/", python=siege.host.prepare())
        siege.finish(siege.start())
        siege.before = siege.take_snapshot()
        yield siege


def arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the soak and of the campaign under fire."""
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument(
        "--shared", action="store_true", help="others work on this machine: compare only what our runs can change"
    )


@contextmanager
def with_device(options: argparse.Namespace) -> Iterator[Siege]:
    """A siege with the server's own times, whose runs set a block device that is there for them only."""
    with loop_device() as device, prepare(options.seed, read_ahead(device), False, options.shared) as siege:
        yield siege


def caveat(options: argparse.Namespace) -> str:
    return " Others worked on the machine: only what these runs could change was compared." if options.shared else ""
