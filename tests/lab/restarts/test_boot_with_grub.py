"""Kernel parameters by an entry of GRUB that starts once, on a machine that boots from its own disk."""

from __future__ import annotations

import time

import pytest

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.hosts.models import Host
from tests.lab.conftest import differences, read_settings, starts
from tests.lab.machines.machine import Machine
from tests.lab.restarts.test_boot import ISOLCPUS, RUN_S, line, tell
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True), pytest.mark.topology("with-grub")]

BOOT_WITH = "settings.kernel_command_line.boot_with"
FACTOR = {
    "name": "CPU 3",
    "levels": [
        {"label": "shared", "set": {ISOLCPUS: None}},
        {"label": "isolated", "set": {ISOLCPUS: "3", BOOT_WITH: "grub"}},
    ],
}


@pytest.mark.proves("kernel_command_line", where="lab")
def test_a_campaign_boots_its_level_with_an_entry_of_grub(
    supervised: Host, admin: User, vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    before, own, starts_before, began = read_settings(vm), line(vm), starts(vm), time.monotonic()
    campaign = services.create_campaign(
        by=admin,
        host=supervised,
        name="isolation",
        question="does isolation help?",
        workload=campaigns.workloads.save_workload("small", single("pgbench", campaigns.PGBENCH), by=admin),
        factors=[FACTOR],
        repetitions=1,
    )
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign, RUN_S)

    runs = {run.cell["CPU 3"]: run for run in campaign.runs.all()}
    tell(capsys, f"2 runs in {time.monotonic() - began:.0f} s, {starts(vm) - starts_before} restarts")
    outcomes = {level: run.outcome for level, run in runs.items()}
    assert outcomes == {"shared": "ok", "isolated": "ok"}, runs["isolated"].error
    proofs = {
        (event.data["subject"], event.data["phase"]): event.data
        for event in runs["isolated"].events.filter(kind="proof", data__setting="kernel_command_line")
    }
    assert proofs["boot", "before"]["evidence"]["boot_with"] == "grub"
    assert proofs["isolated CPUs", "after"]["found"] == "3"
    assert proofs["/proc/cmdline", "restored"]["found"] == own == line(vm)
    assert starts(vm) - starts_before == 2 and differences(before, read_settings(vm)) == {}
