"""A run that boots its host with an entry of GRUB, and files of GRUB that are as before after any failure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agents import console
from agents.facts import core
from agents.host.loaders import grub
from agents.settings import SETTINGS
from tests.agents.booting import MOST_KILLS, boundaries, last_kill
from tests.agents.booting_grub import ADMIN, LINE, UUID, GrubHost
from tests.agents.dying import RUN, Knobs
from tests.session import needs

pytestmark = [pytest.mark.needs("grub-editenv"), pytest.mark.usefixtures("installation")]

WANTED = f"{LINE} skew_tick=1 panic=10 proving_ground.run={RUN}"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrubHost:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    return GrubHost(tmp_path, monkeypatch)


def test_a_run_boots_the_host_once_with_an_entry_of_grub(host: GrubHost) -> None:
    host.submit()
    assert host.states() == ["APPLYING", "REBOOTING"] and host.machine.is_armed

    host.start_again()
    assert host.machine.get("line") == WANTED and not host.machine.is_armed
    host.agent.hello()
    assert host.states()[-2:] == ["ROLLING_BACK", "REBOOTING"] and host.read_files() == host.files

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"], host.manifest["conflicts"]) == ("ok", True, [])
    assert host.is_as_before()


def test_the_entry_is_a_script_of_grub_that_starts_the_running_kernel(host: GrubHost) -> None:
    host.submit()

    custom = host.machine.grub / "custom.cfg"

    checker = str(needs.find_program("grub-script-check"))
    subprocess.run([checker, str(custom)], timeout=10, check=True)
    text = custom.read_text()
    assert f"search --no-floppy --fs-uuid --set=root {UUID}\n" in text and f'"{RUN}"' in text
    assert "'root=/dev/vda' 'ro' 'quiet' 'skew_tick=1'" in text and grub.IMAGE not in text


def test_a_grub_that_cannot_write_starts_the_default_entry_and_its_files_are_restored(host: GrubHost) -> None:
    host.machine.writes = False
    host.submit()

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("not_in_effect", True) and host.is_as_before()


@pytest.mark.thorough
def test_after_a_power_cut_in_the_boot_of_the_run_the_default_entry_starts(host: GrubHost) -> None:
    host.submit()
    host.start_again()

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("not_in_effect", True) and host.is_as_before()


@pytest.mark.thorough
def test_a_host_that_starts_too_late_with_the_line_of_the_run_restarts_itself(host: GrubHost) -> None:
    """As after a power cut between the restart and GRUB."""
    host.submit()
    host.start_again()
    host.machine.late_s = 1801

    host.guard()
    host.start_again()
    host.guard()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("interrupted", True) and host.is_as_before()


@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "too late"])
def test_the_first_unit_of_a_boot_removes_a_variable_that_grub_did_not(
    host: GrubHost, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """As after a power cut, if a disk lost what GRUB had written."""
    host.submit()
    armed = host.read_files()["grubenv"]
    host.start_again()
    (host.machine.grub / "grubenv").write_bytes(armed)
    host.machine.late_s = 1801 if is_late else 0
    monkeypatch.setattr(console, "System", lambda: host.machine)

    console.boot(host.spool.root, "test")

    assert host.read_files()["grubenv"] == host.files["grubenv"]


@pytest.mark.thorough
def test_variables_that_an_admin_sets_meanwhile_stay(host: GrubHost) -> None:
    host.submit()
    host.machine.edit("set", "saved_entry=another", "next_entry=rescue")
    for _ in range(2):
        host.start_again()
        host.agent.hello()

    assert host.manifest["outcome"] == "ok" and host.manifest["clean"]
    assert host.machine.edit("list").splitlines() == ["saved_entry=another", "next_entry=rescue"]


def test_a_run_does_not_replace_the_entry_that_an_admin_has_chosen_for_the_next_start(host: GrubHost) -> None:
    host.machine.edit("set", "next_entry=rescue")

    host.submit()

    assert host.manifest["outcome"] == "failed" and not host.machine.is_armed
    assert "unset next_entry" in host.manifest["error"]["hint"]
    assert host.machine.edit("list").splitlines() == [ADMIN, "next_entry=rescue"]


def test_a_file_custom_cfg_of_an_admin_is_neither_used_nor_replaced(host: GrubHost) -> None:
    custom = host.machine.grub / "custom.cfg"
    host.agent._facts = (host.machine.mono(), core(host.machine))
    custom.write_text("menuentry own {}\n")

    host.submit()

    assert host.manifest["outcome"] == "failed" and custom.read_text() == "menuentry own {}\n"
    assert "move its entries to /etc/grub.d/40_custom" in host.manifest["error"]["message"]
    assert not host.machine.is_armed


def test_a_restart_that_is_refused_leaves_the_files_of_grub_as_they_were(
    host: GrubHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.machine.refuses = "systemctl reboot"
    monkeypatch.setattr(type(host.machine), "reboot", lambda machine: machine.command(["systemctl", "reboot"], ""))

    host.submit()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("failed", True) and host.is_as_before()


@pytest.mark.thorough
@pytest.mark.parametrize("moments", boundaries(first=2))
@pytest.mark.parametrize("boot", [1, 2, 3])
def test_a_run_killed_at_any_boundary_leaves_the_files_of_grub_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: int, moments: range
) -> None:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())

    last = last_kill(tmp_path, boot, lambda root: GrubHost(root, monkeypatch), moments)

    assert 3 < last < MOST_KILLS
