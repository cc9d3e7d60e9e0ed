"""SIGKILL at every boundary of a run and of its recovery: the host is restored, and each event is stored once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agents.records.spool import Job, Spool, read_log
from agents.rpc import Agent
from agents.wire import protocol
from tests.agents.dying import RUN, Machine, die


class Lab:
    """A spool with one submitted job that turns two knobs from off to on."""

    def __init__(self, root: Path) -> None:
        self.root, self.knobs = root, [root / "a", root / "b"]
        for knob in self.knobs:
            knob.write_text("off")
        (root / "boot").write_text("boot-1")
        self.spool = Spool(root / "spool", Machine(root / "boot"))
        self.spool.prepare()
        spec = {
            "version": 1,
            "target": None,
            "settings": {"knobs": {str(knob): "on" for knob in self.knobs}},
            "steps": [],
            "collect": {"interval_s": 1, "sources": []},
        }
        order = {"run": RUN, "epoch": 1, "digest": protocol.digest(spec), "spec": spec}
        self.job: Job = self.spool.create(order)
        self.job.log("state.jsonl").append({"state": "RECEIVED", "step": ""})

    def die(self, mode: str, at: int) -> bool:
        """Whether a run (or a restore) was killed at this boundary, not through before it."""
        return die(mode, self.root, at)

    def restore(self) -> Any:
        agent = Agent(self.spool, "test", lambda *ignored: None)
        agent.restore()
        return agent.hello()

    def check(self) -> str:
        """Everything that must hold after a recovery; the outcome."""
        hello = self.restore()
        assert (hello["busy"], hello["dirty"]) == (None, [])
        assert [knob.read_text() for knob in self.knobs] == ["off", "off"]
        events, damaged = read_log(self.job.path / "events.ndjson")
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1)) and not damaged
        outcomes = [event["data"]["outcome"] for event in events if event["kind"] == "outcome"]
        manifest = self.job.manifest or {}
        assert outcomes == [manifest["outcome"]] and manifest["clean"] and manifest["last_seq"] == len(events)
        return outcomes[0]


@pytest.mark.thorough
def test_a_run_killed_at_any_boundary_is_restored(tmp_path: Path) -> None:
    outcomes, at = [], 1
    while True:
        root = tmp_path / str(at)
        root.mkdir()
        lab = Lab(root)
        died = lab.die("run", at)
        outcomes.append(lab.check())
        if not died:
            break
        at += 1

    assert len(outcomes) > 30  # records and writes of a whole run, before and after each
    assert set(outcomes) == {"interrupted", "ok"} and outcomes[-1] == "ok"
    assert outcomes == sorted(outcomes)  # a recorded outcome does not change, whichever process seals


@pytest.mark.thorough
def test_a_recovery_killed_at_any_boundary_is_taken_up_again(tmp_path: Path) -> None:
    at, killed = 1, True
    while killed:
        root = tmp_path / str(at)
        root.mkdir()
        lab = Lab(root)
        assert lab.die("run", 12)  # both knobs are journaled, one is turned
        assert any(knob.read_text() == "on" for knob in lab.knobs)
        killed = lab.die("restore", at)
        assert lab.check() == "interrupted"
        at += 2

    assert at > 10


def test_a_job_submitted_but_never_started_is_sealed(tmp_path: Path) -> None:
    assert Lab(tmp_path).check() == "interrupted"


def test_a_live_run_is_left_alone(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lock = lab.spool.lock_host()

    assert lab.restore()["busy"] == RUN and not lab.job.sealed
    assert lock is not None
    os.close(lock)


def test_leftover_processes_are_ended_and_a_reused_pid_is_not(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    ours = subprocess.Popen(["sleep", "60"], start_new_session=True)
    others = subprocess.Popen(["sleep", "60"], start_new_session=True)
    stray = subprocess.Popen(["sleep", "60"], start_new_session=True, env={"PROVING_GROUND_RUN": RUN})
    journal = lab.job.log("journal.jsonl")
    for child, off in ((ours, 0), (others, -1)):
        process = lab.spool.system.process(child.pid)
        assert process
        entry = {
            "entry": "process",
            "purpose": "measure",
            "pid": child.pid,
            "start": process.start + off,
            "directory": "/",
        }
        journal.append(entry)

    try:
        lab.check()

        assert ours.wait(60) == -signal.SIGINT and stray.wait(60) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        for child in (ours, others, stray):
            child.kill()
            child.wait()


def test_a_host_that_cannot_be_restored_is_quarantined_until_it_can(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.die("run", 12)
    held = next(knob for knob in lab.knobs if knob.read_text() == "on")
    content = held.read_text()
    held.unlink()

    assert lab.restore()["dirty"] == [RUN]
    assert (lab.job.manifest or {})["clean"] is False
    agent = Agent(lab.spool, "test", lambda *ignored: None)
    spec = {**lab.job.order["spec"], "settings": {}}
    other = RUN.replace("1", "9")
    answer = agent.answer(
        {"id": 1, "verb": "submit", "args": {"run": other, "epoch": 1, "digest": protocol.digest(spec), "spec": spec}}
    )
    assert not answer["ok"] and "quarantined" in answer["error"]["message"]

    held.write_text(content)

    assert lab.restore()["dirty"] == [] and held.read_text() == "off"


def test_a_damaged_journal_is_dirty(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.die("run", 12)
    path = lab.job.path / "journal.jsonl"
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))

    assert lab.restore()["dirty"] == [RUN]


@pytest.mark.parametrize("lost", [1, 30])
def test_a_torn_tail_of_events_does_not_stop_the_recovery(tmp_path: Path, lost: int) -> None:
    lab = Lab(tmp_path)
    assert lab.die("run", 12)
    path = lab.job.path / "events.ndjson"
    os.truncate(path, path.stat().st_size - lost)

    assert lab.check() == "interrupted"


def test_recovery_takes_less_than_ten_seconds(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.die("run", 12)
    began = time.monotonic()
    lab.check()

    assert time.monotonic() - began < 10
