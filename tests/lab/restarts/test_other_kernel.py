"""Another installed kernel as a level, and the host's own kernel after each end of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.models import Run
from apps.hosts.access import ssh
from apps.hosts.models import Host
from tests.lab.conftest import differences, read_settings, starts, wait
from tests.lab.machines import guest
from tests.lab.machines.machine import Machine
from tests.lab.restarts.test_boot import RUN_S, line, measure_in_other_boot, spec, tell
from tests.lab.restarts.test_power import forget, sealed, submit
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True), pytest.mark.topology("with-grub")]

COMMAND_LINE = "settings.kernel_command_line"
RELEASE = "/proc/sys/kernel/osrelease"
INSTALL_S = 1200
BOTH = pytest.mark.parametrize("boot_with", ["kexec", "grub"])


def release(vm: Machine) -> str:
    return vm.shell("uname -r").strip()


def set_default(vm: Machine, entry: str) -> None:
    """Let GRUB start an entry by default."""
    edit = f"sudo sed -i 's/^GRUB_DEFAULT=.*/GRUB_DEFAULT=\"{entry}\"/' /etc/default/grub"
    vm.shell(f"{edit} && sudo update-grub && sudo sync", limit_s=INSTALL_S)


def entry_of(vm: Machine, installed: str) -> str:
    """GRUB's name of the entry of a kernel."""
    uuid = vm.shell("findmnt -no UUID /").strip()
    return f"gnulinux-advanced-{uuid}>gnulinux-{installed}-advanced-{uuid}"


@pytest.fixture
def other(vm: Machine) -> str:
    """The release of another kernel, which is installed as long as the machine exists. GRUB starts by default the one
    that runs."""
    own = release(vm)
    kernels = vm.shell("ls /lib/modules").split()
    if kernels == [own]:
        vm.shell(f"sudo dpkg -i {guest.OTHER_KERNEL}/*.deb", limit_s=INSTALL_S)
        set_default(vm, entry_of(vm, own))
    (another,) = set(vm.shell("ls /lib/modules").split()) - {own}
    return another


def found(run: Run, phase: str) -> dict[str, str]:
    """What the run found at each subject of the setting."""
    proofs = run.events.filter(kind="proof", data__setting="kernel_command_line", data__phase=phase)
    return {event.data["subject"]: event.data["found"] for event in proofs}


@pytest.mark.proves("kernel_command_line", where="lab")
@BOTH
def test_a_campaign_compares_two_kernels(
    other: str, supervised: Host, admin: User, vm: Machine, boot_with: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before, own, own_line = read_settings(vm), release(vm), line(vm)
    starts_before, began = starts(vm), time.monotonic()
    # skew_tick boots the level with the running kernel as well.
    parameters = {f"{COMMAND_LINE}.skew_tick": 0, f"{COMMAND_LINE}.boot_with": boot_with}
    levels = [{"label": each, "set": {f"{COMMAND_LINE}.kernel": each, **parameters}} for each in (own, other)]
    campaign = services.create_campaign(
        by=admin,
        host=supervised,
        name=f"kernels, {boot_with}",
        question="is the other kernel faster?",
        workload=campaigns.workloads.save_workload("small", single("pgbench", campaigns.PGBENCH), by=admin),
        factors=[{"name": "kernel", "levels": levels}],
        repetitions=1,
    )
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign, 2 * RUN_S)

    seconds, restarts = time.monotonic() - began, starts(vm) - starts_before
    runs = {run.cell["kernel"]: run for run in campaign.runs.all()}
    assert {kernel: run.outcome for kernel, run in runs.items()} == {own: "ok", other: "ok"}, runs[other].error
    for kernel, run in runs.items():
        assert found(run, "before")["kernel"] == found(run, "after")["kernel"] == kernel
        assert found(run, "restored")[RELEASE] == own and run.manifest["conflicts"] == []
    changed = differences(before, read_settings(vm))
    assert (release(vm), line(vm), changed, restarts) == (own, own_line, {}, 4)
    tell(capsys, f"{own} and {other} with {boot_with}: 2 runs in {seconds:.0f} s, {restarts} restarts, 0 differences")


@pytest.mark.proves("kernel_command_line", where="lab")
@BOTH
def test_the_host_has_its_own_kernel_after_a_power_cut_in_another_one(
    other: str, supervised: Host, vm: Machine, boot_with: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before, own, own_line = read_settings(vm), release(vm), line(vm)
    run = measure_in_other_boot(supervised, vm, kernel=other, boot_with=boot_with)
    assert release(vm) == other

    vm.cut_power()
    began = time.monotonic()
    vm.up()
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)

    seconds, manifest = time.monotonic() - began, sealed(vm, run)
    assert manifest["outcome"] == "interrupted" and manifest["clean"] and manifest["conflicts"] == []
    assert (release(vm), line(vm), differences(before, read_settings(vm))) == (own, own_line, {})
    tell(capsys, f"power cut in {other} with {boot_with}: restored {seconds:.0f} s later, 0 differences")
    forget(vm, run)


@pytest.fixture
def upgrade_that_waits_for_a_restart(other: str, vm: Machine) -> Iterator[None]:
    """GRUB starts the other kernel by default; afterwards the machine runs its own again."""
    own = release(vm)
    set_default(vm, "0")
    yield
    set_default(vm, entry_of(vm, own))
    boot = vm.boot_id()
    vm.shell("sudo systemctl reboot", check=False)
    wait(lambda: vm.shell("cat /proc/sys/kernel/random/boot_id", check=False).strip() not in ("", boot), limit_s=RUN_S)


@pytest.mark.usefixtures("upgrade_that_waits_for_a_restart")
def test_a_restart_that_starts_an_upgraded_kernel_is_a_conflict(other: str, supervised: Host, vm: Machine) -> None:
    own, boot = release(vm), vm.boot_id()
    run = submit(supervised, {**spec(), "steps": [{"name": "wait", "kind": "wait", "options": {"seconds": 1}}]})
    wait(lambda: vm.shell("cat /proc/sys/kernel/random/boot_id", check=False).strip() not in ("", boot), limit_s=RUN_S)
    assert release(vm) == own
    with ssh.Link(supervised):  # the contact for which the run waits
        pass
    wait(lambda: bool(sealed(vm, run)), limit_s=RUN_S)

    manifest = sealed(vm, run)
    conflicts = {each["key"]: (each["original"], each["found"]) for each in manifest["conflicts"]}
    assert manifest["outcome"] == "ok" and conflicts[RELEASE] == (own, other) == (own, release(vm))
    forget(vm, run)
