"""Runs with the same kernel parameters that share one boot of the host, and its end if no run takes it."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agents.errors import HostFailure
from agents.facts import core
from agents.records.spool import Job, load
from agents.recovery import kept_boot
from agents.recovery.boot import MOST_RESTARTS
from agents.run.session import Session
from agents.settings import SETTINGS
from agents.settings.kernel_command_line import NAME
from agents.wire import protocol
from tests.agents.booting import DEFAULT, MOST_KILLS, WANTED, Host, boundaries
from tests.agents.dying import RUN, Death, Knobs, around_all

pytestmark = pytest.mark.usefixtures("installation")

SECOND, THIRD = "22222222-2222-3333-4444-555555555555", "33333333-2222-3333-4444-555555555555"


class Sharing(Host):
    """A host on which runs leave their boot to the next one."""

    def begin(self, run: str, settings: dict[str, Any] | None = None, *, keep: bool = False) -> None:
        spec = {**self.spec, "settings": {**self.spec["settings"], **(settings or {})}}
        self.agent.submit(run, 1, protocol.digest(spec), spec, keep_boot=keep)

    def measure_first(self) -> None:
        """The first run, which boots the host, ends ok and leaves its boot."""
        self.begin(RUN, keep=True)
        self.start_again()
        self.agent.hello()
        assert self.ending(RUN) == ("ok", True) and self.machine.get("line") == WANTED

    def ending(self, run: str) -> tuple[str, bool]:
        manifest = self.of(run).manifest or {}
        return manifest["outcome"], manifest["clean"]

    def of(self, run: str) -> Job:
        return self.spool.need(run)

    @property
    def restarts(self) -> bool:
        return self.machine.get("restarting") == "yes"

    @property
    def kept(self) -> dict[str, Any]:
        return load(self.spool.root / kept_boot.FILE) or {}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sharing:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    return Sharing(tmp_path)


def states(job: Job) -> list[str]:
    return [record["state"] for record in job.states()]


@pytest.mark.thorough
def test_two_runs_with_the_same_parameters_restart_the_host_twice_in_all(host: Sharing) -> None:
    host.measure_first()
    assert not host.restarts and host.machine.get("knob") == "off"

    host.begin(SECOND)
    assert host.restarts and not host.of(SECOND).sealed
    host.start_again()
    host.agent.hello()

    assert host.ending(SECOND) == ("ok", True) and host.is_as_before() and not host.kept
    assert [states(host.of(run)).count("REBOOTING") for run in (RUN, SECOND)] == [1, 1]


@pytest.mark.thorough
def test_the_second_run_proves_the_boot_and_the_restore(host: Sharing) -> None:
    host.measure_first()
    host.begin(SECOND)
    host.start_again()
    host.agent.hello()

    host_of_second = {proof["subject"]: proof for proof in events(host.of(SECOND), "proof") if proof["setting"] == NAME}

    boot = host_of_second["boot"]
    assert (boot["wanted"], boot["found"], boot["ok"]) == ("another than boot-1", "boot-2", True)
    line = host_of_second["/proc/cmdline"]
    assert (line["phase"], line["found"], line["ok"]) == ("restored", DEFAULT, True)
    assert line["evidence"]["boot_id_before"] == "boot-1" and line["evidence"]["boot_id"] == "boot-3"


@pytest.mark.thorough
def test_a_boot_is_handed_on_from_run_to_run(host: Sharing) -> None:
    host.measure_first()

    host.begin(SECOND, keep=True)
    host.begin(THIRD)
    host.start_again()
    host.agent.hello()

    assert [host.ending(run) for run in (RUN, SECOND, THIRD)] == [("ok", True)] * 3
    assert host.is_as_before() and host.machine.get("boot") == "boot-3"


@pytest.mark.thorough
def test_facts_of_a_host_with_a_kept_boot_are_those_of_its_own_command_line(host: Sharing) -> None:
    before = core(host.machine)["kernel"]["cmdline"]
    host.measure_first()

    assert host.agent.facts()["kernel"]["cmdline"] == before == DEFAULT


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings",
    [
        {NAME: {"skew_tick": 0, "contact_limit_s": 60}},
        {NAME: {"skew_tick": 1, "mitigations": "auto"}},
        {NAME: {}},
    ],
    ids=["another value", "another parameter", "no parameters"],
)
def test_a_run_with_other_parameters_waits_until_the_host_has_restarted(
    host: Sharing, settings: dict[str, Any]
) -> None:
    host.measure_first()

    with pytest.raises(HostFailure, match=f"{SECOND} must wait: the host restarts"):
        host.begin(SECOND, settings)
    assert host.restarts and host.spool.job(SECOND) is None
    host.start_again()
    assert host.is_as_before()
    host.begin(SECOND, settings)

    assert not host.kept and host.spool.need(SECOND)


@pytest.mark.thorough
def test_a_boot_that_no_run_takes_ends_after_its_time(host: Sharing) -> None:
    host.measure_first()
    host.guard()
    assert not host.restarts

    host.machine.late_s = kept_boot.KEEP_S + 1
    host.guard()
    host.guard()  # while the host goes down
    assert host.restarts and len(host.kept["restarts"]) == 1
    host.start_again()
    (status,) = host.agent.restore()["recovered"]

    assert status["did"][0] == f"/proc/cmdline is {DEFAULT} again" and status["run"] == RUN
    assert host.is_as_before() and not host.kept and host.agent.hello()["recovered"] == []


@pytest.mark.thorough
def test_a_power_cut_between_two_runs_ends_the_boot(host: Sharing) -> None:
    host.measure_first()
    host.start_again(DEFAULT)

    host.begin(SECOND)

    assert not host.kept and states(host.of(SECOND))[-1] == "REBOOTING"  # it boots the host by itself
    assert host.machine.get("loaded").startswith(f"{DEFAULT} skew_tick=1")


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_run_that_does_not_end_ok_restarts_the_host(host: Sharing, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    def run_steps(run: Session) -> None:
        if end == "cancelled":
            (run.job.path / "cancel").touch()
        run.check()
        raise HostFailure("the load broke")

    monkeypatch.setattr(Session, "_run_steps", run_steps)
    host.begin(RUN, keep=True)
    host.start_again()
    host.agent.hello()
    assert host.restarts and not host.kept
    host.start_again()
    host.agent.hello()

    assert host.ending(RUN) == (end, True) and host.is_as_before()


@pytest.mark.thorough
def test_a_run_that_could_not_start_ends_the_boot(host: Sharing) -> None:
    host.measure_first()

    def refuse(*job: object) -> None:
        raise HostFailure("systemd did not start the run")

    host.agent._launch = refuse
    with pytest.raises(HostFailure, match="systemd did not start the run"):
        host.begin(SECOND)
    host.agent._launch = host.live
    assert host.spool.job(SECOND) is None
    host.agent.hello()

    assert host.restarts
    host.start_again()
    assert host.agent.hello()["dirty"] == [] and host.is_as_before() and not host.kept


@pytest.mark.thorough
def test_with_a_full_disk_a_run_that_could_not_start_restarts_the_host_itself(
    host: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*job: object) -> None:
        raise HostFailure("systemd did not start the run")

    def fill(*file: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    host.measure_first()
    host.agent._launch = refuse
    with monkeypatch.context() as full, pytest.raises(HostFailure, match="systemd did not start the run"):
        full.setattr(kept_boot, "_store", fill)
        host.begin(SECOND)
    host.agent._launch = host.live
    host.agent.hello()

    assert host.restarts
    host.start_again()
    host.agent.hello()
    assert host.ending(SECOND) == ("interrupted", True) and host.is_as_before()


@pytest.mark.thorough
def test_the_server_ends_a_boot_for_which_it_has_no_run(host: Sharing) -> None:
    host.measure_first()

    (status,) = host.agent.end_boot()["recovered"]

    assert status["state"] == "REBOOTING" and host.restarts
    host.start_again()
    assert host.agent.end_boot()["recovered"] == [] and host.is_as_before()


@pytest.mark.thorough
def test_a_run_whose_values_another_user_changed_leaves_no_boot(host: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_run_steps", lambda run: host.machine.put("knob", "theirs"))
    host.begin(RUN, keep=True)
    host.start_again()
    host.agent.hello()

    assert host.restarts and not host.kept


@pytest.mark.thorough
def test_a_run_cancelled_after_its_last_step_leaves_no_boot(host: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_run_steps", lambda run: (run.job.path / "cancel").touch())
    host.begin(RUN, keep=True)
    host.start_again()
    host.agent.hello()

    assert host.restarts and not host.kept


@pytest.mark.thorough
def test_with_a_full_disk_a_run_leaves_no_boot_and_a_kept_one_ends(
    host: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    host.begin(RUN, keep=True)
    host.start_again()
    with monkeypatch.context() as full:
        full.setattr(kept_boot, "replace", fill)
        host.agent.hello()
    assert host.restarts and not host.kept
    host.start_again()
    host.agent.hello()
    assert host.ending(RUN) == ("ok", True)

    host.begin(SECOND, keep=True)
    host.start_again()
    host.agent.hello()
    assert host.kept
    with monkeypatch.context() as full:
        full.setattr(kept_boot, "replace", fill)
        host.machine.late_s = kept_boot.KEEP_S + 1
        host.guard()

    assert host.restarts


@pytest.mark.thorough
def test_a_restart_that_the_host_refuses_is_tried_again(host: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    host.measure_first()

    def refuse() -> None:
        raise HostFailure("systemctl reboot failed")

    with monkeypatch.context() as refusing:
        refusing.setattr(host.machine, "reboot", refuse)
        with pytest.raises(HostFailure, match="systemctl reboot failed"):
            host.agent.end_boot()
    assert host.kept["restarts"] == []

    host.agent.end_boot()

    assert host.restarts


def test_facts_that_changed_since_the_boot_was_left_are_the_present_ones() -> None:
    own = {"kernel": {"cmdline": "quiet"}, "sysctls": {"a": "1", "b": "1"}, "nodes": [{"kb": 8, "free": 5}], "gone": 1}
    in_boot = {"kernel": {"cmdline": "quiet x"}, "sysctls": {"a": "1", "b": "2"}, "nodes": [{"kb": 7, "free": 4}]}
    present = {"kernel": {"cmdline": "quiet x"}, "sysctls": {"a": "3", "b": "2"}, "nodes": [{"kb": 7, "free": 3}]}

    merged = kept_boot._merged(own, in_boot, present)

    assert merged["kernel"] == {"cmdline": "quiet"} and merged["nodes"] == [{"kb": 8, "free": 3}]
    assert merged["sysctls"] == {"a": "3", "b": "1"}


@pytest.mark.thorough
def test_a_host_that_keeps_the_parameters_is_quarantined_after_the_allowed_restarts(host: Sharing) -> None:
    host.measure_first()
    host.machine.late_s = kept_boot.KEEP_S + 1
    for _ in range(MOST_RESTARTS + 1):
        host.guard()
        host.start_again(WANTED)

    assert host.agent.hello()["dirty"] == [RUN]
    with pytest.raises(HostFailure, match="quarantined"):
        host.begin(SECOND)

    host.start_again(DEFAULT)
    assert host.agent.hello()["dirty"] == []


@pytest.mark.thorough
def test_units_stay_while_they_have_to_end_a_boot(host: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    host.measure_first()

    answer = host.agent.answer({"id": 1, "verb": "uninstall"})

    assert not answer["ok"] and "the host has kernel parameters of run" in answer["error"]["message"]


@pytest.mark.thorough
@pytest.mark.parametrize("moments", boundaries(first=2))
@pytest.mark.parametrize("stage", ["leaving", "taking"])
def test_a_run_killed_at_any_boundary_of_a_shared_boot_leaves_the_host_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, moments: range
) -> None:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    for at in moments:
        place = tmp_path / str(at)
        place.mkdir()
        host, death = Sharing(place), Death(at, sparse=True)
        if not killed_in(host, stage, death):
            break
        host.machine.late_s = kept_boot.KEEP_S + 1
        for _ in range(4):
            host.guard()
            if not host.restarts and not host.spool.unsealed():
                break
            host.start_again()
        assert host.is_as_before() and not host.kept and not host.agent.hello()["dirty"], death.trail[-1]
        assert all((job.manifest or {})["clean"] for job in host.spool.jobs()), death.trail[-1]
    assert 3 < at < MOST_KILLS


def killed_in(host: Sharing, stage: str, death: Death) -> bool:
    """Whether the first run was killed in its boot, or the second one, with the verb that submits it."""
    if stage == "taking":
        host.measure_first()
        return death.of(lambda: (around_all(death), host.begin(SECOND, keep=True)))
    host.begin(RUN, keep=True)
    host.start_again()
    killed = []

    def live(*job: object) -> None:
        def run() -> None:
            around_all(death)
            with suppress(SystemExit):
                Session(host.spool, host.job, "test").execute()

        killed.append(death.of(run))

    host.agent._launch = live
    host.agent.hello()
    host.agent._launch = host.live
    return killed[0]


def events(job: Job, kind: str) -> list[dict[str, Any]]:
    from agents.records.spool import read_log

    return [event["data"] for event in read_log(job.path / "events.ndjson")[0] if event["kind"] == kind]
