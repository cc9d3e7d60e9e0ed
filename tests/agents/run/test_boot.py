"""A run that boots its host with another command line, and the restore of the host after any failure."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agents.records import contact
from agents.recovery.boot import MOST_RESTARTS
from agents.run.session import Session
from agents.settings import SETTINGS
from agents.settings.kernel_command_line import NAME
from tests.agents.booting import DEFAULT, MOST_KILLS, OWN, VERSION, WANTED, Host, boundaries, last_kill
from tests.agents.dying import Knobs

pytestmark = pytest.mark.usefixtures("installation")

OF_BOOT = ["/proc/cmdline", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/version"]
APPLIED, RESTORED = ["APPLYING", "VERIFIED"], ["ROLLING_BACK", "REBOOTING"]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    return Host(tmp_path)


@pytest.mark.thorough
def test_a_run_boots_the_host_with_its_parameters_and_restarts_it_afterwards(host: Host) -> None:
    host.submit()
    assert host.states() == ["APPLYING", "REBOOTING"] and host.machine.get("loaded") == WANTED
    assert host.machine.get("knob") == "off"  # a value that the boot would undo

    host.start_again()
    host.agent.hello()

    assert host.states()[2:] == [*APPLIED, *RESTORED] and host.machine.get("restarting") == "yes"
    assert not host.job.sealed and host.agent.hello()["busy"] == host.job.run

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"], host.manifest["conflicts"]) == ("ok", True, [])
    assert host.states()[-1] == "CLEAN" and host.is_as_before()


@pytest.mark.thorough
def test_proofs_name_the_command_line_and_both_boots(host: Host) -> None:
    host.submit()
    host.start_again()
    host.agent.hello()
    host.start_again()
    host.agent.hello()

    proofs = [proof for proof in host.events("proof") if proof["setting"] == NAME]

    before = {proof["subject"]: proof["found"] for proof in proofs if proof["phase"] == "before"}
    restored = [proof for proof in proofs if proof["phase"] == "restored"]
    assert before == {"/proc/cmdline": "skew_tick=1", "boot": "boot-2", "kernel build": "#1 SMP Debian 6.1"}
    assert [proof["subject"] for proof in restored] == OF_BOOT and all(proof["ok"] for proof in restored)
    assert [proof["found"] for proof in restored] == [DEFAULT, OWN, VERSION]
    boots = [(proof["evidence"]["boot_id_before"], proof["evidence"]["boot_id"]) for proof in restored]
    assert boots == [("boot-1", "boot-3")] * 3


def test_a_host_that_has_the_parameters_already_is_not_restarted(host: Host) -> None:
    host.machine.put("line", f"{DEFAULT} skew_tick=1")

    host.submit()

    assert host.manifest["outcome"] == "ok" and "REBOOTING" not in host.states()


@pytest.mark.thorough
def test_after_a_power_cut_the_host_has_its_own_command_line_and_the_run_ends(host: Host) -> None:
    host.submit()
    host.start_again(DEFAULT)

    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("not_in_effect", True)
    assert host.states().count("REBOOTING") == 1 and host.is_as_before()


@pytest.mark.thorough
def test_the_host_restores_itself_if_the_server_does_not_connect(host: Host) -> None:
    host.submit()
    host.start_again()
    host.machine.sleep = lambda seconds: setattr(host.machine, "late_s", host.machine.late_s + 10)  # type: ignore[method-assign]

    host.guard()
    host.start_again()
    host.guard()

    assert host.manifest["outcome"] == "interrupted" and host.is_as_before()
    assert "the server did not connect within 60 s" in host.manifest["error"]["message"]
    assert not host.events("write")


@pytest.mark.thorough
def test_a_run_that_the_guard_continues_waits_for_the_server(host: Host) -> None:
    host.submit()
    host.start_again()
    waits = iter(range(5))

    def sleep(seconds: float) -> None:
        if next(waits) == 3:
            contact.note(host.spool)

    host.machine.sleep = sleep  # type: ignore[method-assign]

    host.guard()

    assert "VERIFIED" in host.states()


def test_the_server_can_connect_while_the_disk_is_full(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    host.submit()
    monkeypatch.setattr(contact, "replace", fill)

    assert host.agent.hello()["busy"] == host.job.run and contact.newest_boot(host.spool) == ""


@pytest.mark.parametrize("is_down", [False, True], ids=["before it went down", "after the boot"])
def test_a_run_cancelled_during_the_boot_is_not_measured(host: Host, is_down: bool) -> None:
    host.submit()
    if is_down:
        host.start_again()
    (host.job.path / "cancel").touch()
    host.agent.hello()
    if not is_down:
        assert not host.job.sealed  # the loaded kernel starts all the same
        host.start_again()
        host.agent.hello()
    assert host.machine.get("restarting") == "yes"
    host.start_again()
    host.agent.hello()

    assert host.manifest["outcome"] == "cancelled" and host.is_as_before()
    assert "VERIFIED" not in host.states()


@pytest.mark.thorough
def test_a_boot_that_takes_too_long_is_not_continued(host: Host) -> None:
    host.submit()
    host.start_again()
    host.machine.late_s = 1801

    host.agent.hello()
    host.start_again()
    host.agent.hello()

    assert host.manifest["outcome"] == "interrupted" and host.is_as_before()
    assert "1800 s were allowed" in host.manifest["error"]["message"]


@pytest.mark.parametrize("command", ["kexec -a", "systemctl kexec"])
def test_a_host_that_refuses_kexec_is_unchanged(host: Host, command: str) -> None:
    host.machine.refuses = command

    host.submit()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("failed", True) and host.is_as_before()
    assert "not permitted" in host.manifest["error"]["message"]


def test_a_host_without_units_is_not_booted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.recovery.units.BOOTED", "/nonexistent")

    host.submit()

    assert host.manifest["outcome"] == "failed" and host.is_as_before()
    assert "install them on the host's page" in host.manifest["error"]["hint"]


@pytest.mark.thorough
def test_a_command_line_that_an_admin_changed_meanwhile_is_a_conflict(host: Host) -> None:
    host.submit()
    host.start_again()
    host.agent.hello()

    host.start_again("root=/dev/vda ro")
    host.agent.hello()

    (conflict,) = host.manifest["conflicts"]
    assert conflict == {"key": "/proc/cmdline", "original": DEFAULT, "ours": WANTED, "found": "root=/dev/vda ro"}
    assert host.manifest["outcome"] == "ok" and host.manifest["clean"]


@pytest.mark.thorough
def test_values_restored_before_the_restart_are_reported_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that another user changed meanwhile is a conflict, although the restart resets it."""
    monkeypatch.setattr(Session, "_run_steps", lambda run: host.machine.put("knob", "theirs"))
    host.submit()
    for _ in range(2):
        host.start_again()
        host.agent.hello()

    restored = [proof["subject"] for proof in host.events("proof") if proof["phase"] == "restored"]
    assert restored == [str(host.root / "knob"), *OF_BOOT]
    assert [conflict["found"] for conflict in host.manifest["conflicts"]] == ["theirs"]
    assert (host.manifest["outcome"], host.manifest["clean"]) == ("ok", True)


@pytest.mark.thorough
def test_a_boot_that_adds_parameters_is_recognised_as_that_of_the_run(host: Host) -> None:
    host.submit()
    host.start_again(f"{WANTED} acpi_rsdp=0x7f")
    host.agent.hello()
    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"], host.manifest["conflicts"]) == ("ok", True, [])


@pytest.mark.thorough
def test_a_host_that_keeps_the_parameters_is_quarantined_after_the_allowed_restarts(host: Host) -> None:
    host.submit()
    for _ in range(MOST_RESTARTS + 1):
        host.start_again(WANTED)
        host.agent.hello()

    assert host.states().count("REBOOTING") == 1 + MOST_RESTARTS
    assert (host.manifest["outcome"], host.manifest["clean"]) == ("failed", False)
    assert host.agent.hello()["dirty"] == [host.job.run]

    host.start_again()
    host.agent.restore()

    assert host.agent.hello()["dirty"] == []


def test_a_kernel_that_another_program_has_loaded_is_not_replaced(host: Host) -> None:
    host.machine.put("loaded", "root=/dev/sdb")

    host.submit()

    assert host.manifest["outcome"] == "failed" and host.machine.get("loaded") == "root=/dev/sdb"
    assert "unload it: kexec -u" in host.manifest["error"]["hint"]


@pytest.mark.thorough
@pytest.mark.parametrize("moments", boundaries(first=1))
@pytest.mark.parametrize("boot", [1, 2, 3])
def test_a_run_killed_at_any_boundary_of_its_boots_leaves_the_host_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: int, moments: range
) -> None:
    """In the first boot, which ends with kexec; in the second, with the restart; and in the third, which seals it."""
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())

    last = last_kill(tmp_path, boot, Host, moments)

    assert 3 < last < MOST_KILLS
