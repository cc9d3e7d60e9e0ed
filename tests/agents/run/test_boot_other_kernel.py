"""A run in another installed kernel, and the host's own kernel after any end of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.records.journal import Journal
from agents.settings import SETTINGS
from agents.settings.kernel_command_line import NAME
from tests.agents.booting import DEFAULT, MOST_KILLS, OTHER, OWN, VERSION, Bootable, Host, boundaries, last_kill
from tests.agents.booting_grub import GrubHost
from tests.agents.dying import RUN, Knobs

pytestmark = pytest.mark.usefixtures("installation")

RELEASE, BUILD = "/proc/sys/kernel/osrelease", "/proc/sys/kernel/version"
BOTH = pytest.mark.parametrize("boot_with", ["kexec", pytest.param("grub", marks=pytest.mark.needs("grub-editenv"))])


@pytest.fixture
def monkeypatch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(SETTINGS, "knobs", Knobs())
    return monkeypatch


def create(root: Path, monkeypatch: pytest.MonkeyPatch, boot_with: str = "kexec") -> Host:
    """A host whose run boots the other kernel, without any parameter."""
    if boot_with == "grub":
        return GrubHost(root, monkeypatch, {"kernel": OTHER})
    return Host(root, {NAME: {"kernel": OTHER, "contact_limit_s": 60}})


def finish(host: Host) -> None:
    """Submit the run, and start the host again as often as it restarts."""
    host.submit()
    for _ in range(2):
        host.start_again()
        host.agent.hello()


@BOTH
def test_a_run_boots_another_kernel_and_the_host_has_its_own_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot_with: str
) -> None:
    host = create(tmp_path, monkeypatch, boot_with)
    host.submit()
    host.start_again()
    assert host.machine.get("release") == OTHER
    assert {"panic=10", f"proving_ground.run={RUN}"} <= set(host.machine.get("line").split())
    host.agent.hello()
    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"], host.manifest["conflicts"]) == ("ok", True, [])
    assert host.is_as_before()
    found = [(proof["phase"], proof["subject"], proof["found"]) for proof in host.events("proof")]
    assert ("before", "kernel", OTHER) in found and "kernel build" not in [subject for _, subject, _ in found]
    assert ("restored", RELEASE, OWN) in found and ("restored", BUILD, VERSION) in found


def test_a_run_goes_on_in_a_kernel_that_cannot_use_kexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = create(tmp_path, monkeypatch)
    knows = Bootable.exists

    def exists(machine: Bootable, path: str) -> bool:
        return knows(machine, path) and not (path.startswith("/sys/kernel/kexec") and machine.get("release") == OTHER)

    monkeypatch.setattr(Bootable, "exists", exists)

    finish(host)

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("ok", True) and host.is_as_before()


@BOTH
def test_after_a_power_cut_in_the_other_kernel_the_host_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot_with: str
) -> None:
    host = create(tmp_path, monkeypatch, boot_with)
    host.submit()
    host.start_again()

    host.start_again()
    host.agent.hello()

    assert (host.manifest["outcome"], host.manifest["clean"]) == ("not_in_effect", True)
    assert host.manifest["conflicts"] == [] and host.is_as_before()


@pytest.mark.parametrize("settings", [{"kernel": OTHER}, {"kernel": OWN, "skew_tick": 0}, {"skew_tick": 1}])
def test_a_host_whose_restart_starts_an_upgraded_kernel_reports_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object]
) -> None:
    """As with an upgrade that waits for a restart. Each restart starts the new kernel, that of a run as well."""
    host = Host(tmp_path, {NAME: {**settings, "contact_limit_s": 60}})
    host.machine.default = "7.0-upgraded"

    finish(host)

    (conflict,) = host.manifest["conflicts"]
    ours = settings.get("kernel", OWN)
    assert conflict == {"key": RELEASE, "original": OWN, "ours": ours, "found": "7.0-upgraded"}
    assert (host.manifest["outcome"], host.manifest["clean"]) == ("ok", True)
    (proof,) = [each for each in host.events("proof") if each["phase"] == "restored" and each["subject"] == RELEASE]
    assert not proof["ok"] and proof["evidence"]["conflict"]


def test_an_upgraded_kernel_of_the_same_release_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = create(tmp_path, monkeypatch)
    host.submit()
    host.start_again()
    host.agent.hello()
    monkeypatch.setattr("tests.agents.booting.VERSION", "#2 SMP Debian 6.1")
    host.start_again()
    host.agent.hello()

    (conflict,) = host.manifest["conflicts"]
    assert (conflict["key"], conflict["original"], conflict["found"]) == (BUILD, VERSION, "#2 SMP Debian 6.1")


@pytest.mark.parametrize(("more", "boots"), [({}, 0), ({"skew_tick": 0}, 2)])
def test_the_running_kernel_boots_only_with_a_parameter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, int], boots: int
) -> None:
    host = Host(tmp_path, {NAME: {"kernel": OWN, "contact_limit_s": 60, **more}})
    host.submit()
    for _ in range(boots):
        host.start_again()
        host.agent.hello()

    assert (host.manifest["outcome"], host.states().count("REBOOTING")) == ("ok", boots)
    (before,) = [each for each in host.events("proof") if each["subject"] == "kernel" and each["phase"] == "before"]
    assert before["ok"] and before["found"] == OWN and host.machine.get("line") == DEFAULT


def test_a_run_that_an_older_agent_began_ends_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its journal does not name kernels, and has no facts."""
    host, note = Host(tmp_path), Journal.note

    def note_less(journal: Journal, kind: str, **fields: Any) -> Any:
        newer = ("release", "kernel", "facts") if kind == "boot" else ()
        return note(journal, kind, **{name: value for name, value in fields.items() if name not in newer})

    monkeypatch.setattr(Journal, "note", note_less)

    finish(host)

    assert (host.manifest["outcome"], host.manifest["clean"], host.manifest["conflicts"]) == ("ok", True, [])
    restored = [proof["subject"] for proof in host.events("proof") if proof["phase"] == "restored"]
    assert restored == [str(tmp_path / "knob"), "/proc/cmdline"]


class UpgradedHost(Host):
    """Each restart, also that after the run, starts an upgraded kernel."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.machine.default = "7.0-upgraded"

    def is_as_before(self) -> bool:
        """Except for the kernel, which is a conflict."""
        return [conflict["key"] for conflict in self.manifest["conflicts"]] == [RELEASE]


@pytest.mark.thorough
@pytest.mark.usefixtures("monkeypatch")
@pytest.mark.parametrize("moments", boundaries(first=2))
def test_a_conflict_is_reported_although_the_agent_is_killed_at_any_boundary_before(
    tmp_path: Path, moments: range
) -> None:
    last = last_kill(tmp_path, 3, UpgradedHost, moments)

    assert 3 < last < MOST_KILLS


@pytest.mark.thorough
@pytest.mark.needs("grub-editenv")
@pytest.mark.parametrize("moments", boundaries(first=3))
@pytest.mark.parametrize(("boot", "boot_with"), [(1, "grub"), (2, "kexec"), (3, "grub")])
def test_a_run_in_another_kernel_killed_at_any_boundary_leaves_the_host_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: int, boot_with: str, moments: range
) -> None:
    last = last_kill(tmp_path, boot, lambda root: create(root, monkeypatch, boot_with), moments)

    assert 3 < last < MOST_KILLS
