"""A submitted run, killed at a boundary of its journal; what the next contact with the host finds; what is left.

python -m tests.faults.matrix      kills at every boundary of every setting, and writes docs/faults.md
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import facts, protocol
from agents.planning import plan_settings
from agents.rpc import Agent
from agents.spool import Spool
from agents.system import System
from tests import snapshot
from tests.agents.dying import Death, around_the_journal, run
from tests.faults.cases import CASES, IMPOSSIBLE

CONTACT_S = 60.0


def wishes(*names: str) -> dict[str, Any]:
    """{setting: wanted} for these settings; derived anew, as it depends on what the host reads now."""
    return {name: CASES[name]() for name in names}


def possible() -> list[str]:
    return [name for name in CASES if name not in IMPOSSIBLE]


@dataclass
class Row:
    """What was seen of one setting, or of several at once."""

    name: str
    boundaries: int = 0
    kills: int = 0
    differences: dict[str, Any] = field(default_factory=dict)


class Ground:
    """A spool of its own and a directory for clusters, on this machine."""

    def __init__(self, root: Path, bin_dir: Path) -> None:
        self.root, self.bin_dir, self.data_dir = root, bin_dir, root / "data"
        self.data_dir.mkdir(mode=0o755, exist_ok=True)
        self.spool = Spool(root / "spool", System())
        self.spool.prepare()

    def spec(self, settings: dict[str, Any], steps: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
        """A run that applies, proves and restores; on a private cluster where a setting acts on PostgreSQL."""
        plans = plan_settings(facts.core(self.spool.system), settings).values()
        needed = any(plan.server_prefix or plan.conf or plan.initdb for plan in plans)
        target = {"kind": "private", "bin_dir": str(self.bin_dir), "data_dir": str(self.data_dir), "os_user": ""}
        return {
            "version": 1,
            "target": target if needed else None,
            "settings": settings,
            "steps": list(steps),
            "collect": {"interval_s": 0.2, "sources": []},
        }

    def look(self) -> snapshot.Snapshot:
        clusters = [str(path) for path in self.data_dir.iterdir()]
        return snapshot.take([str(self.root), str(self.data_dir), *clusters])

    def submit(self, spec: dict[str, Any]) -> str:
        name = str(uuid.uuid4())
        job = self.spool.create({"run": name, "epoch": 1, "digest": protocol.digest(spec), "spec": spec})
        job.log("state.jsonl").append({"state": "RECEIVED", "step": ""})
        return name

    def live(self, spec: dict[str, Any], at: int = 0) -> tuple[Death, str]:
        """(what was counted, the run) of a run that is killed at boundary `at`; at 0 it is not."""
        death, name = Death(at), self.submit(spec)

        def live() -> None:
            around_the_journal(death)
            run(self.spool, name)

        killed = death.of(live)
        assert killed == (at > 0), f"boundary {at} was not reached: the last one was {death.where}"
        return death, name

    def contact(self) -> dict[str, Any]:
        """The answer of hello, once it finds nobody at work: a child that was just forked holds the host a moment."""
        agent, deadline = Agent(self.spool, "test", lambda *ignored: None), time.monotonic() + CONTACT_S
        while (hello := agent.hello())["busy"]:
            assert time.monotonic() < deadline, hello
            time.sleep(0.005)
        return hello

    def outcome(self, name: str) -> dict[str, Any]:
        """The manifest of a sealed run."""
        return self.spool.need(name).manifest or {}


def count(ground: Ground, name: str, settings: dict[str, Any]) -> Row:
    """A whole run that nobody kills: how many boundaries it has, and that it leaves nothing."""
    before = ground.look()
    death, run = ground.live(ground.spec(settings))
    manifest = ground.outcome(run)
    assert manifest["outcome"] == "ok", manifest["error"]
    return Row(name, death.boundaries, 0, snapshot.differences(before, ground.look()))


def kill(ground: Ground, row: Row, settings: dict[str, Any], at: int) -> None:
    """Kill one run at one boundary, make contact, compare; differences go into the row."""
    before = ground.look()
    death, run = ground.live(ground.spec(settings), at)
    hello = ground.contact()
    row.kills += 1
    where = f"killed at {at}, {death.where}"
    found: dict[str, Any] = dict(snapshot.differences(before, ground.look()))
    if hello["dirty"] or ground.outcome(run)["conflicts"]:
        found["manifest"] = ground.outcome(run)
    if found:
        row.differences[where] = found
