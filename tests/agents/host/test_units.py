"""systemd units as files and commands. tests/lab runs them under systemd on virtual machines."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.errors import HostFailure, PlanFailure
from agents.host.system import Finished, System
from agents.records.spool import Spool
from agents.recovery import units
from agents.rpc import Agent
from agents.run.launching import launch
from agents.wire import protocol

RUN = "11111111-2222-3333-4444-555555555555"
SPEC: dict[str, Any] = {
    "version": 1,
    "target": None,
    "settings": {},
    "steps": [],
    "collect": {"interval_s": 1, "sources": []},
}


class Manager(System):
    """Root on a machine whose systemd accepts every command; `shown` is its description of a unit."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.shown = "MainPID=0\nJob=\n"

    def level(self) -> str:
        return "root"

    def run(self, argv: Sequence[str], **options: Any) -> Finished:
        self.commands.append(" ".join(argv))
        outputs = {"show": self.shown, "journalctl": "Started.\nexec format error"}
        out = next((text for word, text in outputs.items() if word in argv), "")
        return Finished(list(argv), 0, out, "")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    (tmp_path / "etc").mkdir()
    (tmp_path / "agent.pyz").write_bytes(b"this agent")
    monkeypatch.setattr(units, "DIRECTORY", tmp_path / "etc")
    monkeypatch.setattr(units, "BOOTED", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "agent.pyz")])
    return Manager()


@pytest.fixture
def spool(tmp_path: Path, system: Manager) -> Spool:
    spool = Spool(tmp_path / "spool", system)
    spool.prepare()
    return spool


def test_installing_writes_four_units_and_the_agent_that_they_execute(spool: Spool, system: Manager) -> None:
    written = units.install(spool, "abc")

    assert units.state(spool, "abc") == "current"
    assert [os.stat(path).st_mode & 0o777 for path in written[:4]] == [0o644] * 4
    assert (spool.root / "agent.pyz").read_bytes() == b"this agent"
    assert system.commands == [
        "systemctl enable proving-ground-boot.service proving-ground-guard.timer",
        "systemctl start proving-ground-guard.timer",
    ]


def test_another_agent_brings_them_up_to_date(spool: Spool, system: Manager, tmp_path: Path) -> None:
    units.install(spool, "old")
    (tmp_path / "agent.pyz").write_bytes(b"the next agent")

    assert units.state(spool, "new") == "outdated"
    units.refresh(spool, "new")

    assert units.state(spool, "new") == "current"
    assert (spool.root / "agent.pyz").read_bytes() == b"the next agent"
    assert system.commands[-1] == "systemctl daemon-reload"


def test_one_machine_has_the_units_of_one_spool(spool: Spool, system: Manager, tmp_path: Path) -> None:
    units.install(spool, "abc")
    other = Spool(tmp_path / "other", system)
    other.prepare()

    assert units.state(other, "abc") == "absent"
    with pytest.raises(PlanFailure, match="for the spool"):
        units.install(other, "abc")
    assert units.uninstall(other) == []


@pytest.mark.parametrize(("agent", "root"), [("source", "spool"), ("abc", "two words"), ("abc", "100%")])
def test_paths_and_digests_that_are_invalid_in_a_unit_are_refused(
    tmp_path: Path, system: Manager, agent: str, root: str
) -> None:
    spool = Spool(tmp_path / root, system)
    spool.prepare()

    with pytest.raises(PlanFailure):
        units.install(spool, agent)
    assert list((tmp_path / "etc").iterdir()) == []


def test_uninstalling_removes_all_of_it_but_not_beneath_a_run(spool: Spool, tmp_path: Path) -> None:
    units.install(spool, "abc")
    job = spool.create({"run": RUN, "epoch": 1, "digest": "", "spec": SPEC})

    with pytest.raises(PlanFailure, match="is active"):
        units.uninstall(spool)
    job.forget()
    removed = units.uninstall(spool)

    assert len(removed) == 5 and not any(os.path.exists(path) for path in removed)
    assert list((tmp_path / "etc").iterdir()) == [] and units.state(spool, "abc") == "absent"


def test_a_unit_that_does_not_start_is_reported_and_the_run_may_be_submitted_again(spool: Spool) -> None:
    units.install(spool, "abc")

    with pytest.raises(HostFailure, match="did not start the run: exec format error"):
        Agent(spool, "abc", launch).submit(RUN, 1, protocol.digest(SPEC), SPEC)

    assert spool.jobs() == [] and spool.lock_host() is not None


def test_a_run_that_is_only_just_coming_up_is_not_taken_for_dead(
    spool: Spool, system: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "UP_S", 0.1)
    units.install(spool, "abc")
    system.shown = "MainPID=4711\nJob=\n"
    agent = Agent(spool, "abc", launch)

    status = agent.submit(RUN, 1, protocol.digest(SPEC), SPEC)
    before = agent.hello()["busy"]
    system.shown = "MainPID=0\nJob=\n"

    assert (status["state"], before) == ("RECEIVED", RUN)
    assert agent.hello()["busy"] is None and spool.need(RUN).sealed


def test_a_run_is_carried_out_by_the_agent_that_accepted_it(
    spool: Spool, system: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "UP_S", 0.1)
    units.install(spool, "abc")
    system.shown = "MainPID=4711\nJob=\n"
    Agent(spool, "abc", launch).submit(RUN, 1, protocol.digest(SPEC), SPEC)
    (tmp_path / "next").write_bytes(b"the next agent")
    os.replace(tmp_path / "next", tmp_path / "agent.pyz")
    units.refresh(spool, "next")

    assert (spool.need(RUN).path / "agent.pyz").read_bytes() == b"this agent"
    assert f"{spool.root}/jobs/%i/agent.pyz run" in (units.DIRECTORY / units.RUN).read_text()
