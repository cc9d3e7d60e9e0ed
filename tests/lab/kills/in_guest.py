"""Kills the agent at each boundary of its journal, on a machine of the lab.

    sudo python3 -m tests.lab.kills.in_guest < {"settings": ..., "bin_dir": "" or of PostgreSQL, "every": 1}

Prints {"boundaries", "kills", "differences": {where: {name: (before, after)}}, "trail"}. Standard library only.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.host import cgroups
from agents.host.system import System
from agents.records.spool import Spool
from agents.rpc import Agent
from agents.wire import protocol
from tests.agents.dying import Death, around_the_journal, run
from tests.servers import snapshot

ROOT = Path("/var/lib/killed-runs")
SCOPES = ("systemctl", "list-units", "--all", "--no-legend", "--plain", "proving-ground-*.scope")
CONTACT_S, SETTLE_S = 120.0, 20.0


class Host:
    """This machine, with a spool and a directory for a private cluster."""

    def __init__(self, settings: dict[str, Any], bin_dir: str) -> None:
        shutil.rmtree(ROOT, ignore_errors=True)
        ROOT.mkdir(mode=0o755)
        (ROOT / "data").mkdir(mode=0o755)
        self.spool = Spool(ROOT / "spool", System())
        self.spool.prepare()
        target = {"kind": "private", "bin_dir": bin_dir, "data_dir": str(ROOT / "data"), "os_user": ""}
        collect = {"interval_s": 1, "sources": []}
        self.spec: dict[str, Any] = {"version": 1, "target": target if bin_dir else None, "settings": settings}
        self.spec |= {"steps": [], "collect": collect}

    def live(self, at: int) -> tuple[list[str], str]:
        """(boundaries passed, run id) of a run that is killed at boundary `at`; 0 kills none."""
        death, name = Death(at, sparse=True), str(uuid.uuid4())
        order = {"run": name, "epoch": 1, "digest": protocol.digest(self.spec), "spec": self.spec}
        self.spool.create(order).log("state.jsonl").append({"state": "RECEIVED", "step": ""})

        def live() -> None:
            around_the_journal(death)
            run(self.spool, name)

        death.of(live)
        return death.trail, name

    def contact(self) -> dict[str, Any]:
        """The answer of hello, once no run is active."""
        agent, deadline = Agent(self.spool, "test", lambda *ignored: None), time.monotonic() + CONTACT_S
        while (hello := agent.hello())["busy"]:
            assert time.monotonic() < deadline, hello
            time.sleep(0.05)
        return hello

    def compare(self, before: snapshot.Snapshot, name: str, outcome: str) -> dict[str, Any]:
        """Differences that a run leaves after the next contact; systemd may take a moment to remove its scope."""
        hello, deadline = self.contact(), time.monotonic() + SETTLE_S
        while (left := snapshot.differences(before, self.take())) and time.monotonic() < deadline:
            time.sleep(1)
        manifest = self.spool.need(name).manifest or {}
        is_wrong = name in hello["dirty"] or manifest.get("conflicts") or manifest.get("outcome") != outcome
        return {**left, **({"manifest": manifest} if is_wrong else {})}

    def take(self) -> snapshot.Snapshot:
        clusters = [str(path) for path in (ROOT / "data").iterdir()]
        return {**snapshot.take([str(ROOT / "data"), *clusters]), **groups()}


def groups() -> dict[str, str]:
    """Groups and scopes of runs, and the controllers that are on at the root and for services."""
    system = System()
    mount = cgroups.mounts(system)[cgroups.V2][0]
    ours = sorted(str(path) for path in Path(mount).rglob("proving-ground-*"))
    shown = {f"{mount}/{name}": system.text(f"{mount}/{name}/cgroup.subtree_control") for name in ("", "system.slice")}
    has_systemd = system.exists(cgroups.SYSTEMD)
    scopes = (
        subprocess.run(SCOPES, capture_output=True, text=True, check=True, timeout=120).stdout if has_systemd else ""
    )
    return {**shown, "groups": " ".join(ours), "scopes": scopes.strip()}


def kill_everywhere(host: Host, every: int, report: Callable[[str], None]) -> dict[str, Any]:
    host.live(0)  # makes the cluster, which stays
    host.contact()
    before = host.take()
    trail, name = host.live(0)
    differences = {"not killed": host.compare(before, name, "ok")}
    for at in range(1, len(trail) + 1, every):
        passed, name = host.live(at)
        report(f"{at} of {len(trail)}: {passed[-1]}")
        differences[f"killed at {at}, {passed[-1]}"] = host.compare(before, name, "interrupted")
    wrong = {where: changes for where, changes in differences.items() if changes}
    return {"boundaries": len(trail), "kills": len(differences) - 1, "differences": wrong, "trail": trail}


def report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    order = json.load(sys.stdin)
    host = Host(order["settings"], order["bin_dir"])
    json.dump(kill_everywhere(host, order["every"], report), sys.stdout)
