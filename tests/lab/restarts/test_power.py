"""Power cuts at every boundary of a run: after the next boot, the host is restored without a contact.

The emulator is killed when the run's journal has so many records; the boundary is drawn by seed over all of a run.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agents.host import cpulist
from agents.records.spool import parse_line
from agents.wire import protocol
from apps.accounts.models import User
from apps.campaigns.design.targets import target
from apps.hosts import contact
from apps.hosts.access import ssh
from apps.hosts.models import Host
from apps.hosts.usage import cluster_consents
from tests.faults.counts.findings import Found
from tests.faults.counts.ledger import Ledger
from tests.lab import guest_cluster
from tests.lab.conftest import BASE, differences, read_settings, wait
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

SPREAD = 20  # seeds over which the boundaries of a run are spread
SEEDS = cpulist.parse(os.environ.get("PROVING_LAB_SEEDS", "2,7,12,17"))  # 0-19 cut at every part of a run
SETTINGS = {
    "transparent_huge_pages": {"enabled": "never", "defrag": "never"},
    "huge_pages": {"use": "on", "pool": 80},
    "postgresql": {"shared_buffers": "64MB", "work_mem": "8MB"},
    "cpu_affinity": {"server": "0"},
}
# Prints how many records the journal has, each time it grows.
COUNT = """
import sys, time
path, known = sys.argv[1], -1
while True:
    try:
        count = open(path, "rb").read().count(b"\\n")
    except FileNotFoundError:
        count = 0
    if count != known:
        known = count
        print(count, flush=True)
    time.sleep(0.002)
"""


@dataclass(frozen=True)
class Cut:
    seed: int
    boundary: int
    on_disk: int
    boot_s: float
    sealed_s: float
    outcome: str
    differences: dict[str, Any]
    audited: Found


def existing(host: Host, admin: User, vm: Machine) -> dict[str, Any]:
    """The guest's own cluster, with consent to restart it; the included file survives a power cut."""
    cluster = host.facts["clusters"][0]
    guest_cluster.prepare(vm)
    contact.check_host(host)
    cluster_consents.allow(host, cluster["data_dir"], "measure", by=admin)
    cluster_consents.allow(host, cluster["data_dir"], "restart", by=admin)
    return target(host, host.facts, {"data_dir": cluster["data_dir"]})


def spec(target: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": 1,
        "target": target,
        "settings": SETTINGS,
        "dataset": {"kind": "pgbench", "options": {"scale": 1}},
        "steps": [{"name": "measure", "kind": "pgbench", "options": {**campaigns.PGBENCH, "time_s": 2}}],
        "collect": {"interval_s": 1, "sources": ["cpu"]},
    }


def submit(host: Host, spec: dict[str, Any], **more: Any) -> str:
    run = str(uuid.uuid4())
    with ssh.Link(host) as link:
        order = {"run": run, "epoch": link.hello["epoch"] + 1, "digest": protocol.digest(spec), "spec": spec}
        link.call("submit", **order, **more, timeout_s=120)
    return run


def file(vm: Machine, run: str, name: str) -> str:
    return vm.shell(f"sudo cat {BASE}/spool/jobs/{run}/{name}", check=False)


def sealed(vm: Machine, run: str) -> dict[str, Any]:
    return dict(json.loads(file(vm, run, "manifest.json") or "{}"))


def forget(vm: Machine, run: str) -> None:
    vm.shell(f"sudo rm -r {BASE}/spool/jobs/{run}")


def cut_when(vm: Machine, run: str, ready: Callable[[int], bool], extra_s: float) -> None:
    watcher = vm.follow(f"sudo python3 -I -c '{COUNT}' {BASE}/spool/jobs/{run}/journal.jsonl")
    assert watcher.stdout
    for line in watcher.stdout:
        if ready(int(line)):
            break
    time.sleep(extra_s)
    vm.cut_power()
    watcher.wait(60)


def test_the_power_is_cut_at_any_boundary(
    supervised: Host, admin: User, vm: Machine, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even seeds with a private cluster, odd ones with the guest's own."""
    specs = [spec(target(supervised, supervised.facts, {})), spec(existing(supervised, admin, vm))]
    # The first run makes the private cluster; how many records the later ones have, only a later one tells.
    records = [[undisturbed(supervised, vm, each) for _ in range(2)][-1] for each in specs]
    before = read_settings(vm)
    tell(capsys, f"{records} records in the journals of whole runs; {len(before)} values are compared")

    cuts = []
    for seed in SEEDS:
        cuts.append(cut(supervised, vm, specs[seed % 2], seed, records[seed % 2], before))
        tell(capsys, row(cuts[-1]))

    total = sum((cut.audited for cut in cuts), Found())
    ledger.count(16, len(cuts), total, [name for cut in cuts for name in cut.differences])


def undisturbed(host: Host, vm: Machine, spec: dict[str, Any]) -> int:
    """How many records the journal of a whole run has."""
    run = submit(host, spec)
    wait(lambda: bool(sealed(vm, run)), limit_s=600)
    records = file(vm, run, "journal.jsonl").count("\n")
    manifest = sealed(vm, run)
    assert manifest["outcome"] == "ok", manifest["error"]
    forget(vm, run)
    return records


def cut(host: Host, vm: Machine, spec: dict[str, Any], seed: int, records: int, before: dict[str, Any]) -> Cut:
    chance = random.Random(seed)
    boundary = 1 + (seed * records // SPREAD + chance.randrange(-(-records // SPREAD))) % records
    run = submit(host, spec)
    cut_when(vm, run, lambda count: count >= boundary, chance.uniform(0, 0.2))

    boot_s = vm.up()
    on_disk = survived(vm, run)
    began = time.monotonic()
    wait(lambda: bool(sealed(vm, run)), limit_s=600)
    manifest, after = sealed(vm, run), read_settings(vm)
    audited = check_whole(vm, run, manifest)
    forget(vm, run)
    sealed_s = time.monotonic() - began
    return Cut(seed, boundary, on_disk, boot_s, sealed_s, manifest["outcome"], differences(before, after), audited)


def survived(vm: Machine, run: str) -> int:
    """Records of the boot that was cut; those after them are the recovery's."""
    boots = [json.loads(line)["boot_id"] for line in file(vm, run, "journal.jsonl").splitlines()]
    return boots.count(boots[0]) if boots else 0


def check_whole(vm: Machine, run: str, manifest: dict[str, Any]) -> Found:
    """The run ended as interrupted, or had ended before the cut; what became of its events."""
    lines = [parse_line(line.encode()) for line in file(vm, run, "events.ndjson").splitlines()]
    seqs = Counter(line["seq"] for line in lines if line)
    assert manifest["clean"] and manifest["conflicts"] == [] and manifest["outcome"] in ("interrupted", "ok")
    return Found(runs=1, lost=manifest["last_seq"] - len(seqs), duplicated=seqs.total() - len(seqs))


def tell(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{line}")
        sys.stdout.flush()


def row(cut: Cut) -> str:
    return (
        f"seed {cut.seed:2}  cut at record {cut.boundary:2}  on disk {cut.on_disk:2}  boot {cut.boot_s:5.1f} s  "
        f"{cut.outcome:11}  differences {len(cut.differences)} {cut.differences or ''}"
    )
