"""Kernel parameters by an entry of GRUB that starts once, on a machine that boots from its own disk."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from apps.accounts.models import User
from apps.hosts.models import Host
from tests.lab.conftest import differences, read_settings, wait
from tests.lab.machines.machine import Machine
from tests.lab.restarts import moments, two_parameters
from tests.lab.restarts.moments import DOWN, JOB, Moment, check, cut
from tests.lab.restarts.test_boot import RUN_S, line, measure_in_other_boot, spec, tell
from tests.lab.restarts.test_power import file, forget, sealed, submit

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True), pytest.mark.topology("with-grub")]

GRUB = {"boot_with": "grub"}
MENU = "GNU GRUB"  # on the serial console
shown, written = (functools.partial(moment, **GRUB) for moment in (moments.shown, moments.written))


@pytest.mark.proves("kernel_command_line", where="lab")
def test_a_campaign_compares_two_parameters_with_entries_of_grub(
    supervised: Host, admin: User, vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(capsys, two_parameters.compare(supervised, admin, vm, "grub"))


UNTIL_GRUB_STARTS: dict[str, Moment] = {
    "the boot is in the journal": written("environment", f"{JOB}/journal.jsonl"),
    "the variable is set": written("proving_ground_run", "/boot/grub/grubenv"),
    "the services stop": written("REBOOTING", f"{JOB}/state.jsonl", then_s=1.5),
    "the firmware starts": shown(DOWN),
}
FROM_THEN_ON: dict[str, Moment] = {
    "GRUB shows its menu": shown(DOWN, MENU),
    "GRUB loads the kernel": shown(DOWN, MENU, "Booting `Proving Ground'"),
    "the kernel starts": shown(DOWN, MENU, "Booting `Proving Ground'", then_s=6),
    "the host has started": shown(DOWN, MENU, "lab login:"),
    "the run measures": lambda host, vm: measure_in_other_boot(host, vm, **GRUB),
    "the host restarts after the run": shown(DOWN, MENU, DOWN),
}


def test_the_power_is_cut_at_any_moment_of_a_run_with_an_entry_of_grub(
    supervised: Host, vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    before, own, cuts = read_settings(vm), line(vm), []
    for moment, reach in (UNTIL_GRUB_STARTS | FROM_THEN_ON).items():
        cuts.append(cut(supervised, vm, moment, reach, before))
        tell(capsys, str(cuts[-1]))

    check(cuts, own, set(FROM_THEN_ON))


@pytest.mark.proves("kernel_command_line", where="lab")
@pytest.mark.parametrize("fault", ["the agent is killed", "the kernel panics"])
def test_the_default_entry_starts_after_a_fault_in_the_boot_of_a_run(supervised: Host, vm: Machine, fault: str) -> None:
    before, own = read_settings(vm), line(vm)
    run = measure_in_other_boot(supervised, vm, **GRUB)

    if fault == "the agent is killed":
        vm.shell(f"sudo systemctl kill --kill-whom=main --signal=KILL proving-ground-run@{run}")
    else:
        vm.shell("sudo sh -c 'echo 1 > /proc/sys/kernel/sysrq; (sleep 1; echo c > /proc/sysrq-trigger) &'", check=False)
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)

    manifest = sealed(vm, run)
    assert manifest["outcome"] == "interrupted" and manifest["clean"] and manifest["conflicts"] == []
    assert line(vm) == own and differences(before, read_settings(vm)) == {}
    forget(vm, run)


# A unit that takes the network away from each boot with the parameters of a run.
NO_NETWORK = """[Unit]
ConditionKernelCommandLine=isolcpus
After=network.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'systemctl stop systemd-networkd.socket systemd-networkd.service'
ExecStart=/bin/sh -c 'ip link set group default down && echo The network is down. > /dev/ttyS0'
[Install]
WantedBy=multi-user.target
"""
UNIT = "/etc/systemd/system/no-network.service"


@pytest.fixture
def network_lost_in_the_boot_of_a_run(vm: Machine) -> Iterator[None]:
    vm.shell(f"sudo tee {UNIT} > /dev/null && sudo systemctl enable no-network", stdin=NO_NETWORK.encode())
    yield
    vm.shell(f"sudo systemctl disable no-network; sudo rm {UNIT}; sudo systemctl daemon-reload")


@pytest.mark.usefixtures("network_lost_in_the_boot_of_a_run")
def test_a_host_whose_network_fails_with_the_parameters_comes_back_by_itself(supervised: Host, vm: Machine) -> None:
    before, own = read_settings(vm), line(vm)

    run = submit(supervised, spec(**GRUB, contact_limit_s=60))
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)

    manifest = sealed(vm, run)
    assert manifest["outcome"] == "interrupted" and manifest["clean"]
    assert "the server did not connect within 60 s" in manifest["error"]["message"]
    assert "The network is down." in vm.console()
    assert file(vm, run, "events.ndjson").count("REBOOTING") == 2
    assert line(vm) == own and differences(before, read_settings(vm)) == {}
    forget(vm, run)
