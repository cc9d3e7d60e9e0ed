"""Parameters of the kernel's command line on a real kernel, and the admin's own command line after each failure."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.before_start import previews
from apps.campaigns.design.steps import single
from apps.hosts.access import ssh
from apps.hosts.models import Host
from apps.hosts.services import change_host, uninstall_units
from common.errors import PlanError
from tests.lab.conftest import BASE, differences, read_settings, starts, wait
from tests.lab.machines.machine import Machine
from tests.lab.restarts import two_parameters
from tests.lab.restarts.test_power import file, forget, sealed, submit
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

RUN_S = 1500
ISOLCPUS = "settings.kernel_command_line.isolcpus"
FACTOR = {
    "name": "CPU 3",
    "levels": [
        {"label": "shared", "set": {ISOLCPUS: None}},
        {"label": "isolated", "set": {ISOLCPUS: "3", "settings.cpu_affinity.server": "3"}},
    ],
}


def line(vm: Machine) -> str:
    return vm.shell("cat /proc/cmdline").strip()


@pytest.fixture
def each_restart_is_a_kexec(vm: Machine) -> Iterator[None]:
    """As Debian's kexec-tools are installed by default: a restart keeps the command line that the host has."""
    vm.shell("sudo ln -sf boot/vmlinuz-$(uname -r) /vmlinuz; sudo ln -sf boot/initrd.img-$(uname -r) /initrd.img")
    assert "LOAD_KEXEC=true" in vm.shell("cat /etc/default/kexec")
    yield
    vm.shell("sudo rm /vmlinuz /initrd.img")


def tell(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{text}")
        sys.stdout.flush()


@pytest.mark.proves("kernel_command_line", where="lab")
@pytest.mark.usefixtures("each_restart_is_a_kexec")
def test_a_campaign_compares_isolated_cpus_with_shared_ones_without_help_of_a_user(
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
    assert "REBOOTING" not in runs["shared"].manifest["timings"]
    found = {
        (event.data["subject"], event.data["phase"]): event.data["found"]
        for event in runs["isolated"].events.filter(kind="proof", data__setting="kernel_command_line")
    }
    assert found["/proc/cmdline", "before"] == "isolcpus=3" and found["isolated CPUs", "after"] == "3"
    assert found["/proc/cmdline", "restored"] == own == line(vm)
    assert starts(vm) - starts_before == 2 and differences(before, read_settings(vm)) == {}
    supervised.refresh_from_db()
    assert supervised.state == Host.State.READY and previews.preview(campaign).restart_known


@pytest.mark.proves("kernel_command_line", where="lab")
def test_a_campaign_compares_two_parameters_with_kexec(
    supervised: Host, admin: User, vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(capsys, two_parameters.compare(supervised, admin, vm, "kexec"))


def spec(**more: Any) -> dict[str, Any]:
    """A run without PostgreSQL, in a boot with other parameters; it waits."""
    return {
        "version": 1,
        "target": None,
        "settings": {"kernel_command_line": {"isolcpus": "3", "transparent_hugepage": "never", **more}},
        "steps": [{"name": "wait", "kind": "wait", "options": {"seconds": 600}}],
        "collect": {"interval_s": 1, "sources": ["cpu"]},
    }


def state(vm: Machine, run: str) -> str:
    """The newest state of the run; "" while the host is down."""
    lines = vm.shell(f"sudo tail -n 1 {BASE}/spool/jobs/{run}/state.jsonl", check=False).splitlines()
    return str(json.loads(lines[0])["state"]) if lines else ""


def measure_in_other_boot(host: Host, vm: Machine, **more: Any) -> str:
    """A run that has booted the host, and waits there in its step."""
    boot = vm.boot_id()
    run = submit(host, spec(**more))
    wait(lambda: vm.shell("cat /proc/sys/kernel/random/boot_id", check=False).strip() not in ("", boot), limit_s=RUN_S)
    with ssh.Link(host):  # the contact for which the run waits
        pass
    wait(lambda: state(vm, run) == "RUNNING", limit_s=300)
    assert "isolcpus=3 transparent_hugepage=never" in line(vm)
    return run


@pytest.mark.proves("kernel_command_line", where="lab")
@pytest.mark.parametrize("fault", ["the agent is killed", "the power fails", "the kernel panics"])
def test_the_host_has_its_own_command_line_again_without_any_contact(supervised: Host, vm: Machine, fault: str) -> None:
    before, own = read_settings(vm), line(vm)
    run = measure_in_other_boot(supervised, vm)

    if fault == "the agent is killed":
        vm.shell(f"sudo systemctl kill --kill-whom=main --signal=KILL proving-ground-run@{run}")
    elif fault == "the kernel panics":
        vm.shell("sudo sh -c 'echo 1 > /proc/sys/kernel/sysrq; (sleep 1; echo c > /proc/sysrq-trigger) &'", check=False)
    else:
        vm.cut_power()
        vm.up()
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)

    manifest = sealed(vm, run)
    assert manifest["outcome"] == "interrupted" and manifest["clean"] and manifest["conflicts"] == []
    assert line(vm) == own and differences(before, read_settings(vm)) == {}
    forget(vm, run)


def test_a_host_restarts_itself_if_the_server_does_not_connect(supervised: Host, vm: Machine) -> None:
    before, own = read_settings(vm), line(vm)

    run = submit(supervised, spec(contact_limit_s=60))
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)

    manifest = sealed(vm, run)
    assert manifest["outcome"] == "interrupted" and manifest["clean"]
    assert "the server did not connect within 60 s" in manifest["error"]["message"]
    assert file(vm, run, "events.ndjson").count("REBOOTING") == 2
    assert line(vm) == own and differences(before, read_settings(vm)) == {}
    forget(vm, run)


def test_without_consent_or_units_the_plan_is_refused(host: Host, admin: User) -> None:
    uninstall_units(host, by=admin)
    with pytest.raises(PlanError, match="has no systemd units"):
        campaigns.start(host, admin, FACTOR)

    change_host(host, by=admin, may_reboot=False)

    with pytest.raises(PlanError, match="must not be restarted"):
        campaigns.start(host, admin, FACTOR)
