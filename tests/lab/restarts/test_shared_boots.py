"""Runs that share a boot on a real kernel, and the admin's own command line when no run takes a boot that was left."""

from __future__ import annotations

import time
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.hosts.access import ssh
from apps.hosts.models import Host
from tests.lab.conftest import BASE, differences, read_settings, starts, wait
from tests.lab.machines.machine import Machine
from tests.lab.restarts.test_boot import line, tell
from tests.lab.restarts.test_power import forget, sealed, submit
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

RUN_S = 1500
FACTORS = [
    {
        "name": "skew_tick",
        "levels": [{"label": str(n), "set": {"settings.kernel_command_line.skew_tick": n}} for n in (0, 1)],
    },
    {
        "name": "memory",
        "levels": [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in ("32MB", "64MB")],
    },
]


@pytest.mark.proves("kernel_command_line", where="lab")
def test_in_the_order_fewest_restarts_two_runs_share_a_boot(
    supervised: Host, admin: User, vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    before, own, starts_before, began = read_settings(vm), line(vm), starts(vm), time.monotonic()
    campaign = services.create_campaign(
        by=admin,
        host=supervised,
        name="shared boots",
        question="does skew_tick help?",
        workload=campaigns.workloads.save_workload("small", single("pgbench", campaigns.PGBENCH), by=admin),
        factors=FACTORS,
        repetitions=2,
        order="fewest_restarts",
    )
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign, 8 * RUN_S)

    runs = list(campaign.runs.order_by("position"))
    restarts = starts(vm) - starts_before
    tell(capsys, f"{len(runs)} runs in {time.monotonic() - began:.0f} s, {restarts} restarts")
    assert [run.outcome for run in runs] == ["ok"] * 8, [run.error for run in runs if run.error]
    boots = [(run.cell["skew_tick"], _proof(run, "boot", "before")) for run in runs]
    assert boots[::2] == boots[1::2] and len(set(boots)) == 4 and restarts == 8
    assert [_proof(run, "/proc/cmdline", "restored") for run in runs] == ["", own] * 4
    assert line(vm) == own and differences(before, read_settings(vm)) == {}


@pytest.mark.parametrize("end", ["no run comes", "the power fails"])
def test_a_boot_that_was_left_ends_without_the_server(supervised: Host, vm: Machine, end: str) -> None:
    before, own = read_settings(vm), line(vm)
    run = _leave_boot(supervised, vm)
    assert "skew_tick=1" in line(vm) and sealed(vm, run)["outcome"] == "ok"

    if end == "the power fails":
        vm.cut_power()
        vm.up()
    wait(lambda: vm.shell(f"sudo ls {BASE}/spool/boot.json", check=False) == "", limit_s=RUN_S)

    wait(lambda: vm.shell("cat /proc/cmdline", check=False).strip() == own, limit_s=RUN_S)
    assert differences(before, read_settings(vm)) == {}
    forget(vm, run)


def _leave_boot(host: Host, vm: Machine) -> str:
    """A run that has ended, and whose boot no other run takes."""
    boot = vm.boot_id()
    spec: dict[str, Any] = {
        "version": 1,
        "target": None,
        "settings": {"kernel_command_line": {"skew_tick": 1}},
        "steps": [{"name": "wait", "kind": "wait", "options": {"seconds": 1}}],
        "collect": {"interval_s": 1, "sources": ["cpu"]},
    }
    run = submit(host, spec, keep_boot=True)
    wait(lambda: vm.shell("cat /proc/sys/kernel/random/boot_id", check=False).strip() not in ("", boot), limit_s=RUN_S)
    with ssh.Link(host):  # the contact for which the run waits
        pass
    wait(lambda: bool(sealed(vm, run)), limit_s=300)
    return run


def _proof(run: Any, subject: str, phase: str) -> str:
    """What a proof of the kernel's command line found, "" without this proof."""
    proofs = run.events.filter(kind="proof", data__setting="kernel_command_line", data__subject=subject)
    return next((str(event.data["found"]) for event in proofs.filter(data__phase=phase)), "")
