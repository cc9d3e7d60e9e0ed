"""A run that boots its host with an entry of systemd-boot, and files and variables that are as before after any
failure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agents import console
from agents.facts import core
from agents.host import owned
from agents.host.loaders import systemd_boot
from agents.settings import SETTINGS
from tests.agents.booting import MOST_KILLS, OTHER, OWN, boundaries, last_kill
from tests.agents.booting_systemd_boot import LINE, SystemdBootHost, variable_of
from tests.agents.dying import RUN, Knobs

pytestmark = pytest.mark.usefixtures("installation")

WANTED = f"{LINE} skew_tick=1 panic=10 proving_ground.run={RUN}"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemdBootHost:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    return SystemdBootHost(tmp_path, monkeypatch)


def test_a_run_boots_the_host_once_with_an_entry_of_systemd_boot(host: SystemdBootHost) -> None:
    host.submit()
    assert host.states() == ["APPLYING", "REBOOTING"]
    assert host.machine.variable(systemd_boot.ONE_SHOT).read_bytes() == variable_of("-proving-ground.conf", 7)

    host.start_again()
    assert host.machine.get("line") == WANTED and not host.machine.is_armed
    host.agent.hello()
    assert host.states()[-2:] == ["ROLLING_BACK", "REBOOTING"] and host.read_files() == host.files

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"], host.manifest["conflicts"]) == ("ok", True, [])
    assert host.is_as_before()


def test_the_entry_starts_the_running_kernel_without_the_parameter_that_systemd_boot_adds(
    host: SystemdBootHost,
) -> None:
    host.submit()

    entry = systemd_boot.parsed((host.machine.entries / systemd_boot.NAME).read_text())

    assert (entry["linux"], entry["initrd"]) == ([f"/{OWN}/linux"], [f"/{OWN}/initrd"])
    assert entry["options"] == [WANTED.partition(" ")[2]] and "initrd=" not in entry["options"][0]


def test_a_run_boots_another_kernel_that_has_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    host = SystemdBootHost(tmp_path, monkeypatch, {"kernel": OTHER})

    host.submit()
    for _ in range(2):
        host.start_again()
        host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("ok", True) and host.is_as_before()
    assert {proof["found"] for proof in host.events("proof") if proof["subject"] == "kernel"} == {OTHER}


def test_a_systemd_boot_that_does_not_find_the_entry_starts_the_default_and_the_files_are_restored(
    host: SystemdBootHost,
) -> None:
    host.submit()
    (host.machine.entries / systemd_boot.NAME).unlink()

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("not_in_effect", True) and host.is_as_before()


@pytest.mark.parametrize("left", [b"", b"# Of Proving", b"\0\xff"])
def test_an_entry_that_a_power_cut_leaves_unfinished_is_removed(
    host: SystemdBootHost, monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    create = owned.create

    def cut(path: str, data: bytes, *more: Any) -> None:
        if not path.endswith(systemd_boot.NAME):
            return create(path, data, *more)
        Path(path).write_bytes(left)
        os._exit(1)

    monkeypatch.setattr(owned, "create", cut)
    host.submit()
    assert (host.machine.entries / systemd_boot.NAME).read_bytes() == left

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("interrupted", True)
    assert host.manifest["conflicts"] == [] and host.is_as_before()


@pytest.mark.thorough
def test_after_a_power_cut_in_the_boot_of_the_run_the_default_entry_starts(host: SystemdBootHost) -> None:
    host.submit()
    host.start_again()

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("not_in_effect", True) and host.is_as_before()


@pytest.mark.thorough
def test_a_host_that_starts_too_late_with_the_line_of_the_run_restarts_itself(host: SystemdBootHost) -> None:
    """As after a power cut between the restart and systemd-boot."""
    host.submit()
    host.start_again()
    host.machine.late_s = 1801

    host.guard()
    host.start_again()
    host.guard()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("interrupted", True) and host.is_as_before()


@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "too late"])
def test_the_first_unit_of_a_boot_removes_a_variable_that_the_firmware_kept(
    host: SystemdBootHost, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    host.machine.deletes = False
    host.submit()
    host.start_again()
    assert host.machine.is_armed
    host.machine.late_s = 1801 if is_late else 0
    monkeypatch.setattr(console, "System", lambda: host.machine)

    console.boot(host.spool.root, "test")

    assert not host.machine.is_armed


@pytest.mark.thorough
def test_an_entry_that_an_admin_chooses_meanwhile_stays_chosen(host: SystemdBootHost) -> None:
    chosen = variable_of("rescue.conf", 7)
    host.submit()
    host.start_again()
    host.machine.variable(systemd_boot.ONE_SHOT).write_bytes(chosen)

    host.agent.hello()
    assert host.machine.variable(systemd_boot.ONE_SHOT).read_bytes() == chosen
    host.start_again()
    host.agent.hello()

    assert host.manifest["outcome"] == "ok" and host.is_as_before()


def test_a_run_does_not_replace_the_entry_that_an_admin_has_chosen_for_the_next_start(host: SystemdBootHost) -> None:
    chosen = variable_of("rescue.conf", 7)
    host.machine.variable(systemd_boot.ONE_SHOT).write_bytes(chosen)

    host.submit()

    assert host.manifest["outcome"] == "failed" and "bootctl set-oneshot ''" in host.manifest["error"]["hint"]
    assert host.machine.variable(systemd_boot.ONE_SHOT).read_bytes() == chosen
    assert not (host.machine.entries / systemd_boot.NAME).exists()


def test_a_file_of_an_admin_with_the_name_of_the_entry_is_neither_used_nor_replaced(host: SystemdBootHost) -> None:
    own = host.machine.entries / systemd_boot.NAME
    host.agent._facts = (host.machine.mono(), core(host.machine))
    own.write_text("title Rescue\n")

    host.submit()

    assert host.manifest["outcome"] == "failed" and own.read_text() == "title Rescue\n"
    assert "exists: rename it" in host.manifest["error"]["message"] and not host.machine.is_armed


def test_a_firmware_that_refuses_the_variable_ends_the_run_before_any_restart(
    host: SystemdBootHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, data: bytes) -> None:
        raise OSError(22, "Invalid argument", path)

    monkeypatch.setattr(systemd_boot, "_create", refuse)

    host.submit()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("failed", True) and host.is_as_before()
    assert "REBOOTING" not in host.states()


def test_a_restart_that_is_refused_leaves_files_and_variables_as_they_were(
    host: SystemdBootHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.machine.refuses = "systemctl reboot"
    monkeypatch.setattr(type(host.machine), "reboot", lambda machine: machine.command(["systemctl", "reboot"], ""))

    host.submit()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("failed", True) and host.is_as_before()


@pytest.mark.thorough
@pytest.mark.parametrize("moments", boundaries(first=3))
@pytest.mark.parametrize("boot", [1, 2, 3])
def test_a_run_killed_at_any_boundary_leaves_files_and_variables_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: int, moments: range
) -> None:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())

    last = last_kill(tmp_path, boot, lambda root: SystemdBootHost(root, monkeypatch), moments)

    assert 3 < last < MOST_KILLS
