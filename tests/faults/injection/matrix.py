"""A run that is killed at a boundary of its journal, the next contact with the host, and what it left."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from agents import facts
from agents.host.system import System
from agents.records.spool import Spool
from agents.rpc import Agent
from agents.run.planning import plan_settings
from agents.wire import protocol
from embedded.servers.postgres import bin_dir
from tests.agents.dying import Death, around_the_journal, run
from tests.faults.injection.cases import CASES
from tests.servers import remote, snapshot
from tests.session.alone import alone

CONTACT_S = 60.0
SEED = 14


@dataclass
class Row:
    """What was seen of one setting, or of several at once."""

    name: str
    boundaries: int = 0
    kills: int = 0
    differences: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}: {self.boundaries} boundaries, {self.kills} kills, {len(self.differences)} differences"


@contextmanager
def ground() -> Iterator[Ground]:
    """This machine, for one test at a time."""
    with alone(), reserve_lowered(), remote.short_dir() as root, loop_device() as device:
        root.chmod(0o755)  # PostgreSQL's account has to reach its cluster
        yield Ground(root, device)


@contextmanager
def reserve_lowered() -> Iterator[None]:
    """Lower min_free_kbytes below the kernel's default. Transparent huge pages make the kernel compute it again."""
    reserve = Path("/proc/sys/vm/min_free_kbytes")
    before = reserve.read_text()
    if os.geteuid() == 0:
        reserve.write_text(str(int(before) * 3 // 4))
    try:
        yield
    finally:
        if os.geteuid() == 0:
            reserve.write_text(before)


@contextmanager
def loop_device() -> Iterator[str]:
    """The name of an unused loop device; "" without the privilege to create one."""
    if os.geteuid():
        yield ""
        return
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(1 << 23)
        path = subprocess.check_output(["losetup", "--find", "--show", file.name], text=True, timeout=30).strip()
        try:
            tune(Path("/sys/block", Path(path).name, "queue"))
            yield Path(path).name
        finally:
            subprocess.run(["losetup", "--detach", path], check=True, timeout=30)


def tune(queue: Path) -> None:
    """Tune the device first, so that the kernel's defaults differ from the values to restore."""
    for name, value in (("scheduler", "mq-deadline"), ("iosched/read_expire", "300"), ("nr_requests", "200")):
        (queue / name).write_text(value)


class Ground:
    """A spool of its own, a directory for clusters, and a block device."""

    def __init__(self, root: Path, device: str) -> None:
        self.root, self.device, self.data_dir = root, device, root / "data"
        self.data_dir.mkdir(mode=0o755, exist_ok=True)
        self.spool = Spool(root / "spool", System())
        self.spool.prepare()

    def wishes(self, *names: str) -> dict[str, Any]:
        """{setting: wanted} of these settings."""
        return {name: CASES[name](self.device) for name in names}

    def spec(self, settings: dict[str, Any], steps: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
        """A run that applies, proves and restores; on a private cluster where a setting acts on PostgreSQL."""
        plans = plan_settings(facts.core(self.spool.system), settings).values()
        needed = any(plan.server_prefix or plan.conf or plan.initdb for plan in plans)
        target = {"kind": "private", "bin_dir": str(bin_dir()), "data_dir": str(self.data_dir), "os_user": ""}
        return {
            "version": 1,
            "target": target if needed else None,
            "settings": settings,
            "steps": list(steps),
            "collect": {"interval_s": 0.2, "sources": []},
        }

    def take_snapshot(self) -> snapshot.Snapshot:
        """The state of the machine without runs of other tests."""
        clusters = [str(path) for path in self.data_dir.iterdir()]
        state, ours = snapshot.take([str(self.root), str(self.data_dir), *clusters]), os.listdir(self.spool.jobs_dir)
        mark = snapshot.MARK.decode()
        return {k: v for k, v in state.items() if not v.startswith(mark) or v[len(mark) :].split(" ")[0] in ours}

    def submit(self, spec: dict[str, Any]) -> str:
        name = str(uuid.uuid4())
        job = self.spool.create({"run": name, "epoch": 1, "digest": protocol.digest(spec), "spec": spec})
        job.log("state.jsonl").append({"state": "RECEIVED", "step": ""})
        return name

    def live(self, spec: dict[str, Any], at: int = 0) -> tuple[Death, str]:
        """(counts, run) of a run that is killed at boundary `at`; 0 means never."""
        death, name = Death(at, sparse=True), self.submit(spec)

        def live() -> None:
            around_the_journal(death)
            run(self.spool, name)

        death.of(live)
        return death, name

    def contact(self) -> dict[str, Any]:
        """The answer of hello once no process holds the host: a newly forked child does so for a moment."""
        agent, deadline = Agent(self.spool, "test", lambda *ignored: None), time.monotonic() + CONTACT_S
        while (hello := agent.hello())["busy"]:
            assert time.monotonic() < deadline, hello
            time.sleep(0.005)
        return hello

    def outcome(self, name: str) -> dict[str, Any]:
        """The manifest of a sealed run."""
        return self.spool.need(name).manifest or {}


class Victims:
    """One request whose run is killed repeatedly. The expected state was read once before the first run."""

    def __init__(self, ground: Ground, name: str, settings: dict[str, Any]) -> None:
        self.ground, self.spec, self.row = ground, ground.spec(settings), Row(name)
        self.trail: list[str] = []
        if self.spec["target"]:
            ground.live(self.spec)  # makes the cluster, which stays
        self._before = ground.take_snapshot()

    def count(self) -> None:
        """A whole run without a kill: its number of boundaries. It must leave nothing."""
        death, run = self.ground.live(self.spec)
        self.row.boundaries, self.trail = len(death.trail), death.trail
        self._compare("not killed", run, "ok")

    def kill(self, at: int) -> None:
        """Kill the run at a boundary, make contact, compare."""
        death, run = self.ground.live(self.spec, at)
        self.row.kills += 1
        self._compare(f"killed at {at}, {death.trail[-1]}", run, "interrupted")

    def kill_twice(self, at: int, again: int) -> bool:
        """Kill the run at one boundary and the recovery at another, then make contact and compare. False when the
        recovery came through before that."""
        first, run = self.ground.live(self.spec, at)
        death = Death(again, sparse=True)

        def recover() -> None:
            around_the_journal(death)
            self.ground.contact()

        killed = death.of(recover)
        self.row.kills += killed
        self._compare(
            f"killed at {at}, {first.trail[-1]}; its recovery at {again}, {death.trail[-1]}", run, "interrupted"
        )
        return killed

    def _compare(self, where: str, run: str, outcome: str) -> None:
        hello = self.ground.contact()
        after = self.ground.take_snapshot()
        differences: dict[str, Any] = dict(snapshot.differences(self._before, after))
        manifest = self.ground.outcome(run)
        if run in hello["dirty"] or manifest["conflicts"] or manifest["outcome"] != outcome:
            differences["manifest"] = manifest
        if differences:
            self.row.differences[where] = differences
            self._before = after


def every_boundary(ground: Ground, name: str, settings: dict[str, Any]) -> Row:
    victims = Victims(ground, name, settings)
    victims.count()
    for at in range(1, victims.row.boundaries + 1):
        victims.kill(at)
    return victims.row


def some_boundaries(ground: Ground, name: str, settings: dict[str, Any], kills: int) -> Row:
    """A sample that is the same each time, as long as the number of boundaries is."""
    victims = Victims(ground, name, settings)
    victims.count()
    everywhere = range(1, victims.row.boundaries + 1)
    for at in sorted(Random(SEED).sample(everywhere, min(kills, len(everywhere)))):
        victims.kill(at)
    return victims.row


def every_boundary_of_a_recovery(ground: Ground, name: str, settings: dict[str, Any], step: int = 1) -> Row:
    """The run is killed after all is applied and before a restore; its recovery at every `step`-th boundary."""
    victims = Victims(ground, name, settings)
    victims.count()
    back = ("the record ended", "the record restored")
    applied = next(at for at, where in enumerate(victims.trail) if any(word in where for word in back))
    again = 1
    while victims.kill_twice(applied, again):
        victims.row.boundaries = again
        again += step
    return victims.row
