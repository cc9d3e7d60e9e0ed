"""Kernel parameters by an entry of systemd-boot that starts once, on a machine with UEFI that boots from its own
disk."""

from __future__ import annotations

import functools

import pytest

from apps.accounts.models import User
from apps.hosts.models import Host
from tests.lab.conftest import differences, read_settings, wait
from tests.lab.machines.machine import Machine
from tests.lab.restarts import moments, two_parameters
from tests.lab.restarts.moments import DOWN, JOB, Moment, check, cut
from tests.lab.restarts.test_boot import RUN_S, line, measure_in_other_boot, tell
from tests.lab.restarts.test_power import forget, sealed

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True), pytest.mark.topology("with-systemd-boot")]

SYSTEMD_BOOT = {"boot_with": "systemd-boot"}
STARTS = "starting Boot"  # on the serial console: the firmware starts a boot loader
ENTRIES, VARIABLES = "/boot/efi/loader/entries", "/sys/firmware/efi/efivars"
shown, written = (functools.partial(moment, **SYSTEMD_BOOT) for moment in (moments.shown, moments.written))


@pytest.mark.proves("kernel_command_line", where="lab")
def test_a_campaign_compares_two_parameters_with_entries_of_systemd_boot(
    supervised: Host, admin: User, vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(capsys, two_parameters.compare(supervised, admin, vm, "systemd-boot", repetitions=1))


UNTIL_IT_STARTS: dict[str, Moment] = {
    "the boot is in the journal": written("environment", f"{JOB}/journal.jsonl"),
    "the entry is written": written("proving_ground", f"{ENTRIES}/-proving-ground.conf"),
    "the variable is set": written(".", f"{VARIABLES}/LoaderEntryOneShot-*"),
    "the services stop": written("REBOOTING", f"{JOB}/state.jsonl", then_s=1.5),
    "the firmware starts": shown(DOWN),
}
FROM_THEN_ON: dict[str, Moment] = {
    "the kernel starts": shown(DOWN, STARTS, then_s=8),
    "the host has started": shown(DOWN, STARTS, "lab login:"),
    "the run measures": lambda host, vm: measure_in_other_boot(host, vm, **SYSTEMD_BOOT),
    "the host restarts after the run": shown(DOWN, STARTS, DOWN),
}


@pytest.mark.parametrize("moment", [*UNTIL_IT_STARTS, *FROM_THEN_ON])
def test_the_power_is_cut_at_any_moment_of_a_run_with_an_entry_of_systemd_boot(
    supervised: Host, vm: Machine, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    """No entry is configured as the default: the order of their names decides."""
    before, own = read_settings(vm), line(vm)

    result = cut(supervised, vm, moment, (UNTIL_IT_STARTS | FROM_THEN_ON)[moment], before)

    tell(capsys, str(result))
    check([result], own, set(FROM_THEN_ON))


@pytest.mark.proves("kernel_command_line", where="lab")
@pytest.mark.parametrize("fault", ["the agent is killed", "the kernel panics"])
def test_the_default_entry_starts_after_a_fault_in_the_boot_of_a_run(supervised: Host, vm: Machine, fault: str) -> None:
    before, own = read_settings(vm), line(vm)
    run = measure_in_other_boot(supervised, vm, **SYSTEMD_BOOT)

    if fault == "the agent is killed":
        vm.shell(f"sudo systemctl kill --kill-whom=main --signal=KILL proving-ground-run@{run}")
    else:
        vm.shell("sudo sh -c 'echo 1 > /proc/sys/kernel/sysrq; (sleep 1; echo c > /proc/sysrq-trigger) &'", check=False)
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)

    manifest = sealed(vm, run)
    assert manifest["outcome"] == "interrupted" and manifest["clean"] and manifest["conflicts"] == []
    assert line(vm) == own and differences(before, read_settings(vm)) == {}
    forget(vm, run)
