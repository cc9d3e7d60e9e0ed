"""Kernel parameters by an entry of GRUB that starts once, on a machine that boots from its own disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from apps.accounts.models import User
from apps.hosts.models import Host
from tests.lab.conftest import BASE, differences, read_settings, wait
from tests.lab.machines.machine import Machine
from tests.lab.restarts import two_parameters
from tests.lab.restarts.test_boot import RUN_S, line, measure_in_other_boot, spec, tell
from tests.lab.restarts.test_power import file, forget, sealed, submit

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True), pytest.mark.topology("with-grub")]

GRUB = {"boot_with": "grub"}
DOWN, MENU = "Restarting system", "GNU GRUB"  # on the serial console
Moment = Callable[[Host, Machine], str]


@pytest.mark.proves("kernel_command_line", where="lab")
def test_a_campaign_compares_two_parameters_with_entries_of_grub(
    supervised: Host, admin: User, vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(capsys, two_parameters.compare(supervised, admin, vm, "grub"))


def written(text: str, path: str, then_s: float = 0) -> Moment:
    """A moment of a new run: a file contains a text, and some seconds have passed."""
    # Starts before the run: a connection takes seconds on an emulated machine.
    command = f"sudo sh -c 'echo ready; until grep -qs {text} {path}; do :; done; echo reached'"

    def reach(host: Host, vm: Machine) -> str:
        with vm.follow(command) as watcher:
            assert watcher.stdout and watcher.stdout.readline() == b"ready\n"
            run = submit(host, spec(**GRUB, contact_limit_s=60))
            assert watcher.stdout.readline() == b"reached\n"
            time.sleep(then_s)
            watcher.kill()
        return run

    return reach


def shown(*texts: str, then_s: float = 0) -> Moment:
    """A moment of a new run: the serial console has shown these texts in this order, and some seconds have passed."""

    def reach(host: Host, vm: Machine) -> str:
        seen = len(vm.console())
        run = submit(host, spec(**GRUB, contact_limit_s=60))
        for text in texts:
            seen = after(vm, text, seen)
        time.sleep(then_s)
        return run

    return reach


def after(vm: Machine, text: str, seen: int) -> int:
    """Wait for a text in what the console has not `seen` yet. Returns where it ends."""
    wait(lambda: vm.console().find(text, seen) >= 0, limit_s=RUN_S, every_s=0.02)
    return vm.console().find(text, seen) + len(text)


JOB = f"{BASE}/spool/jobs/*"
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


@dataclass(frozen=True)
class Cut:
    """`restarts` of the host by itself after the cut: 0 if its first boot had its own command line."""

    moment: str
    restarts: int
    seconds: float
    manifest: dict[str, Any]
    line: str
    differences: dict[str, Any]

    def __str__(self) -> str:
        figures = f"{self.restarts} more restarts  {self.seconds:5.1f} s  {self.manifest['outcome']:13}"
        changed = f"differences {len(self.differences)} {self.differences or ''}"
        return f"{self.moment:32}  {figures}  {changed}\n  {self.line}"


def cut(host: Host, vm: Machine, moment: str, reach: Moment, before: dict[str, Any]) -> Cut:
    run = reach(host, vm)
    vm.cut_power()
    began = time.monotonic()
    vm.up()
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)
    seconds, manifest = time.monotonic() - began, sealed(vm, run)
    changed = differences(before, read_settings(vm))
    forget(vm, run)
    return Cut(moment, vm.console().count(DOWN), seconds, manifest, line(vm), changed)


def test_the_power_is_cut_at_any_moment_of_a_run_with_an_entry_of_grub(
    supervised: Host, vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    before, own, cuts = read_settings(vm), line(vm), []
    for moment, reach in (UNTIL_GRUB_STARTS | FROM_THEN_ON).items():
        cuts.append(cut(supervised, vm, moment, reach, before))
        tell(capsys, str(cuts[-1]))

    outcomes = [cut.manifest["outcome"] for cut in cuts]
    assert set(outcomes) <= {"interrupted", "not_in_effect"} and all(cut.manifest["clean"] for cut in cuts)
    assert [cut.moment for cut in cuts if cut.line != own or cut.differences or cut.manifest["conflicts"]] == []
    assert [cut.restarts for cut in cuts if cut.moment in FROM_THEN_ON] == [0] * len(FROM_THEN_ON)
    assert all(cut.restarts <= 1 for cut in cuts)


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
