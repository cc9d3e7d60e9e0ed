"""A planned restart of the host: the run continues at the next step, once, in time, unless it was cancelled.

The host is a process that ends, a boot id that changes, and knobs that fall back to what the kernel starts with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.errors import Unplannable
from agents.records.spool import Job, Spool
from agents.recovery import reboot
from agents.run.planning import plan_steps
from agents.run.session import Session
from agents.settings import SETTINGS
from agents.wire import protocol
from tests.agents.booting import OneRun
from tests.agents.dying import RUN, Death, Knobs, Machine, around_all

RESTART = {"name": "restart", "kind": "reboot", "options": {"limit_s": 100}}


class Host(OneRun):
    """A host with one knob, and a run that turns it on before and after a restart."""

    def __init__(self, root: Path, steps: list[dict[str, Any]]) -> None:
        self.boot, self.knob = root / "boot", root / "knob"
        self.knob.write_text("off")
        self.boot.write_text("boot-1")
        self.machine = Machine(self.boot)
        super().__init__(root, self.machine, {"knobs": {str(self.knob): "on"}}, steps)
        self.submit()

    def start_again(self, knob: str = "off") -> None:
        """Boot the host; the new kernel has none of the earlier values."""
        self.boot.write_text(f"boot-{int(self.boot.read_text()[5:]) + 1}")
        self.knob.write_text(knob)

    def outcome(self) -> dict[str, Any]:
        (outcome,) = self.events("outcome")
        assert self.knob.read_text() == "off" and (self.job.manifest or {})["clean"]
        return outcome


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    return Host(tmp_path, [RESTART])


def test_the_next_contact_after_the_restart_continues_the_run(host: Host) -> None:
    assert host.states()[-1] == "REBOOTING"
    host.start_again()

    host.agent.hello()

    applied, verified = ["APPLYING", "VERIFIED"], ["ROLLING_BACK", "CLEAN"]
    assert host.states() == [*applied, "REBOOTING", *applied, *verified]
    assert [write["boot_id"] for write in host.records("write")] == ["boot-1", "boot-2"]
    assert host.outcome()["outcome"] == "ok"


def test_a_run_may_restart_its_host_more_than_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    host = Host(tmp_path, [{**RESTART, "name": name} for name in ("first", "second")])
    for _ in range(2):
        host.start_again()
        host.agent.hello()

    steps = [event["step"] for event in host.events("state") if event["state"] == "REBOOTING"]
    assert steps == ["first", "second"] and host.outcome()["outcome"] == "ok"


def test_while_the_host_goes_down_a_contact_waits(host: Host) -> None:
    hello = host.agent.hello()
    other = {"run": RUN.replace("1", "9"), "epoch": 1, "digest": "", "spec": host.job.order["spec"]}
    other["digest"] = protocol.digest(other["spec"])
    refusal = host.agent.answer({"id": 1, "verb": "submit", "args": other})

    assert hello["busy"] == RUN and host.states()[-1] == "REBOOTING" and host.knob.read_text() == "on"
    assert "is restarting this host or starting" in refusal["error"]["message"]


def test_a_host_that_does_not_go_down_is_restored(host: Host) -> None:
    host.machine.late_s = 101

    host.agent.hello()

    assert "did not go down within 100 s" in host.outcome()["error"]["message"]


def test_a_restart_that_takes_too_long_is_not_resumed(host: Host) -> None:
    host.start_again()
    host.machine.late_s = 101

    host.agent.hello()

    outcome = host.outcome()
    assert outcome["outcome"] == "interrupted" and "100 s were allowed" in outcome["error"]["message"]
    assert host.states().count("APPLYING") == 1


@pytest.mark.parametrize("restarted", [False, True], ids=["before it went down", "after"])
def test_a_run_cancelled_during_the_restart_is_not_resumed(host: Host, restarted: bool) -> None:
    if restarted:
        host.start_again()
    (host.job.path / "cancel").touch()

    host.agent.hello()

    assert host.outcome()["outcome"] == "cancelled" and host.states().count("APPLYING") == 1


@pytest.mark.parametrize("at", [1, 2, 3, 5, 8])
def test_a_host_that_dies_while_resuming_is_not_restarted_into_it(host: Host, at: int) -> None:
    host.start_again()
    host.agent._launch = lambda spool, job, lock, agent: die(spool, job, at)
    host.agent.hello()
    host.agent._launch = host.live
    host.start_again()

    host.agent.hello()

    assert host.outcome()["outcome"] == "interrupted"
    assert host.states().count("REBOOTING") == 1


def die(spool: Spool, job: Job, at: int) -> None:
    """The resumed run, killed at its `at`-th boundary."""
    death = Death(at)

    def live() -> None:
        around_all(death)
        Session(spool, job, "test").execute()

    assert death.of(live)


def test_a_change_that_a_restart_undid_is_not_a_conflict(host: Host) -> None:
    (host.job.path / "cancel").touch()
    host.start_again(knob="what the new kernel says")

    host.agent.hello()

    manifest = host.job.manifest or {}
    (proof,) = [proof for proof in host.events("proof") if proof["phase"] == "restored"]
    assert (manifest["outcome"], manifest["clean"], manifest["conflicts"]) == ("cancelled", True, [])
    assert proof["ok"] and proof["evidence"]["by_restart"] and proof["found"] == "what the new kernel says"


@pytest.mark.parametrize("options", [{"limit_s": 1}, {"limit_s": "soon"}, {"delay_s": 60}])
def test_options_of_a_restart_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(Unplannable, match="reboot"):
        plan_steps({"target": None, "steps": [{**RESTART, "options": options}]})


def test_a_restart_may_take_half_an_hour_by_default() -> None:
    assert reboot.limit_of({"options": {}}) == 1800
