"""Shell commands on the host and the systemd units: their restore and their messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents import console
from agents.records.journal import Journal
from agents.records.spool import Job, Spool
from agents.recovery import units
from agents.wire import protocol
from tests.agents.dying import RUN, Machine


class Cut:
    """A host after a power cut: a run had put a file and turned a knob."""

    def __init__(self, root: Path, step: str) -> None:
        self.file, self.knob, self.boot = root / "ours.conf", root / "knob", root / "boot"
        self.boot.write_text("boot-1")
        self.knob.write_text("off")
        self.spool = Spool(root / "spool", Machine(self.boot))
        self.spool.prepare()
        steps = [{"name": "restart", "kind": "reboot", "options": {}}]
        spec = {"version": 1, "target": None, "settings": {}, "steps": steps, "collect": {}}
        order = {"run": RUN, "epoch": 1, "digest": protocol.digest(spec), "spec": spec}
        self.job: Job = self.spool.create(order)
        Journal(self.job, self.spool.system).put_file("postgresql", str(self.file), "work_mem = '1GB'\n")
        self.job.log("state.jsonl").append({"state": step, "step": "restart", "index": 0})
        self.boot.write_text("boot-2")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(console, "System", lambda: Machine(tmp_path / "boot"))


def test_at_boot_a_dead_run_s_files_go_back_and_the_guard_seals_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = Cut(tmp_path, "RUNNING")

    console.boot(cut.spool.root, "test")
    early = (cut.file.exists(), cut.job.sealed, capsys.readouterr().out)
    with pytest.raises(SystemExit) as ended:
        console.guard(cut.spool.root, "test")

    assert early == (False, False, f"run {RUN}\n  {cut.file} is restored to absent\n")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"run {RUN}: the host is restored\n")
    assert (cut.job.manifest or {})["outcome"] == "interrupted"


def test_at_boot_the_files_of_a_planned_restart_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = Cut(tmp_path, "REBOOTING")

    console.boot(cut.spool.root, "test")

    assert cut.file.exists() and capsys.readouterr().out == ""


def test_the_console_does_not_restore_settings_of_an_active_run(tmp_path: Path) -> None:
    cut = Cut(tmp_path, "RUNNING")
    lock = cut.spool.lock_host()

    with pytest.raises(SystemExit, match="a run is active"):
        console.boot(cut.spool.root, "test")

    assert lock is not None and cut.file.exists()


def test_a_file_that_another_user_changed_is_reported_and_not_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = Cut(tmp_path, "RUNNING")
    cut.file.write_text("theirs")

    console.boot(cut.spool.root, "test")

    assert f"left {cut.file} unchanged: another user or program set it to theirs" in capsys.readouterr().out
    assert cut.file.read_text() == "theirs"


def test_a_value_that_cannot_be_restored_is_reported_with_exit_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(tmp_path, "RUNNING")
    data = bytearray((cut.job.path / "journal.jsonl").read_bytes())
    data[20] ^= 1
    (cut.job.path / "journal.jsonl").write_bytes(bytes(data))

    with pytest.raises(SystemExit) as ended:
        console.guard(cut.spool.root, "test")
    console.status(cut.spool.root, "test")

    output = capsys.readouterr().out
    assert ended.value.code == 1 and "the host is NOT restored" in output
    assert f"run {RUN} SEALED restart interrupted, the host is NOT restored" in output


def test_units_are_refused_with_a_reason_without_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BOOTED", "/nonexistent")
    (tmp_path / "boot").write_text("boot-1")

    with pytest.raises(SystemExit, match="need root and a systemd that is PID 1; without"):
        console.install(tmp_path / "spool", "test")
