"""The demo's description of the machine, and changes that it does not make without a confirmation."""

from pathlib import Path

import pytest

from embedded.demo import machine


def test_host_state_reads_the_values_of_the_kernel() -> None:
    state = machine.changeable_values()
    assert state["vm.swappiness"] == Path("/proc/sys/vm/swappiness").read_text().strip()
    assert machine.differences(state, machine.changeable_values()) == []


def test_a_difference_names_both_values() -> None:
    before, after = {"vm.swappiness": "60", "vm.nr_hugepages": "0"}, {"vm.swappiness": "10", "vm.nr_hugepages": "0"}
    assert machine.differences(before, after) == ["vm.swappiness: 60 -> 10"]


def fake_system(bin_dir: Path, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> Path:
    """An apt-get that only notes its arguments, and a PATH without fio and numactl."""
    bin_dir.mkdir()
    noted = bin_dir / "noted"
    (bin_dir / "apt-get").write_text(f'#!/bin/sh\necho "$@" >> {noted}\n')
    (bin_dir / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_dir))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: terminal)
    return noted


def answer(monkeypatch: pytest.MonkeyPatch, word: str) -> list[str]:
    prompts: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt: prompts.append(prompt) or word)
    return prompts


def test_without_a_terminal_the_command_is_printed_and_nothing_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = fake_system(tmp_path / "bin", monkeypatch, terminal=False)
    machine.offer_tools(tmp_path)
    assert "apt-get install --no-install-recommends fio numactl" in capsys.readouterr().out
    assert not noted.exists()


def test_no_is_taken_for_an_answer_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted, prompts = fake_system(tmp_path / "bin", monkeypatch, terminal=True), answer(monkeypatch, "")
    machine.offer_tools(tmp_path)
    machine.offer_tools(tmp_path)
    assert len(prompts) == 1
    assert not noted.exists()


def test_yes_installs_the_missing_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted, _ = fake_system(tmp_path / "bin", monkeypatch, terminal=True), answer(monkeypatch, "y")
    machine.offer_tools(tmp_path)
    assert noted.read_text().splitlines()[-1].endswith("install -y --no-install-recommends fio numactl")
