"""A campaign of two kernel parameters with two levels each, 3 repetitions: 12 runs, each in a boot of its own. With one
repetition, 4 runs."""

from __future__ import annotations

import time

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.models import Run
from apps.hosts.models import Host
from tests.lab.conftest import differences, read_settings, starts
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

REPETITIONS = 3
RUN_S = 1500
COMMAND_LINE = "settings.kernel_command_line"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"


def compare(host: Host, admin: User, vm: Machine, boot_with: str, repetitions: int = REPETITIONS) -> str:
    """Run the campaign; every run has its parameters, and the machine ends as it began. Returns what it took."""
    before, own, starts_before, began = read_settings(vm), _line(vm), starts(vm), time.monotonic()
    campaign = services.create_campaign(
        by=admin,
        host=host,
        name=f"two parameters, {boot_with}",
        question="does isolation help, with huge pages or without?",
        workload=campaigns.workloads.save_workload("small", single("pgbench", campaigns.PGBENCH), by=admin),
        factors=_factors(boot_with),
        repetitions=repetitions,
    )
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign, 4 * repetitions * RUN_S)

    runs = list(campaign.runs.all())
    assert [run.outcome for run in runs] == ["ok"] * 4 * repetitions, [run.error for run in runs if run.error]
    assert [run for run in runs if not _had_its_parameters(run, own, boot_with)] == []
    restarts = starts(vm) - starts_before
    assert _line(vm) == own and restarts == 2 * len(runs) and differences(before, read_settings(vm)) == {}
    return f"{len(runs)} runs with {boot_with} in {time.monotonic() - began:.0f} s, {restarts} restarts, 0 differences"


def _factors(boot_with: str) -> list[dict[str, object]]:
    isolated = [("shared", {f"{COMMAND_LINE}.isolcpus": None}), ("isolated", {f"{COMMAND_LINE}.isolcpus": "3"})]
    pages = [
        (value, {f"{COMMAND_LINE}.transparent_hugepage": value, f"{COMMAND_LINE}.boot_with": boot_with})
        for value in ("always", "never")
    ]
    return [
        {"name": name, "levels": [{"label": label, "set": values} for label, values in levels]}
        for name, levels in (("CPU 3", isolated), ("huge pages", pages))
    ]


def _had_its_parameters(run: Run, own: str, boot_with: str) -> bool:
    found = {
        (event.data["subject"], event.data["phase"]): event.data["found"]
        for event in run.events.filter(kind="proof", data__setting="kernel_command_line")
    }
    boot = run.events.get(kind="proof", data__subject="boot", data__phase="before").data
    pages = run.cell["huge pages"]
    parameters, isolated = [f"transparent_hugepage={pages}"], None
    if run.cell["CPU 3"] == "isolated":
        parameters, isolated = ["isolcpus=3", *parameters], "3"
    return (
        boot["evidence"]["boot_with"] == boot_with
        and found["/proc/cmdline", "before"] == " ".join(parameters)
        and found.get(("isolated CPUs", "after")) == isolated
        and found[THP, "after"] == pages
        and found["/proc/cmdline", "restored"] == own
    )


def _line(vm: Machine) -> str:
    return vm.shell("cat /proc/cmdline").strip()
