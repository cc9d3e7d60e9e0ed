"""Parameters of the kernel's command line: the resulting line, reasons to refuse it, and proofs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.errors import Unplannable
from agents.facts.cpu import cpus
from agents.host import cmdline, policy
from agents.run.planning import check_spec, check_together, plan_settings
from agents.settings import SETTINGS, Scene
from agents.settings.kernel_command_line import NAME, parameters_of
from tests.agents.fakes import FakeSystem

FACTS = json.loads((Path(__file__).parents[1] / "cases/facts.json").read_text())
SETTING = SETTINGS[NAME]
CPUS = "/sys/devices/system/cpu"
RUN = {"boot_id": "boot-0", "version": "#1 SMP"}
SPEC: dict[str, Any] = {
    "version": 1,
    "target": None,
    "settings": {NAME: {"mitigations": "off"}},
    "steps": [],
    "collect": {"interval_s": 1, "sources": []},
}


@pytest.mark.parametrize(
    ("line", "wanted", "result"),
    [
        ("ro quiet", ["mitigations=off"], "ro quiet mitigations=off panic=10"),
        ("ro mitigations=auto panic=5", ["mitigations=off"], "ro panic=5 mitigations=off"),
        ("ro panic=0", ["skew_tick=1"], "ro skew_tick=1 panic=10"),
        ("ro panic=-1", ["skew_tick=1"], "ro panic=-1 skew_tick=1"),
        ("ro -- single", ["skew_tick=1"], "ro skew_tick=1 panic=10 -- single"),
        ('ro dyndbg="file a +p" isolcpus=1', ["isolcpus=2"], 'ro dyndbg="file a +p" isolcpus=2 panic=10'),
        ("ro numa-balancing=enable", ["numa_balancing=disable"], "ro numa_balancing=disable panic=10"),
        (
            "ro hugepagesz=2M hugepages=8 hugepagesz=1G hugepages=1",
            ["hugepagesz=1G", "hugepages=4"],
            "ro hugepagesz=1G hugepages=4 panic=10",
        ),
        ("ro isolcpus=2 quiet", ["isolcpus=2"], "ro isolcpus=2 quiet"),
        ("ro skew_tick=1 skew_tick=0", ["skew_tick=1"], "ro skew_tick=1 panic=10"),
        (
            "ro hugepagesz=2M hugepages=8 hugepagesz=1G hugepages=4",
            ["hugepagesz=2M", "hugepages=4"],
            "ro hugepagesz=2M hugepages=4 panic=10",
        ),
    ],
)
def test_only_parameters_of_the_run_are_replaced_and_a_panic_restarts_the_host(
    line: str, wanted: list[str], result: str
) -> None:
    assert cmdline.changed(line, wanted) == result


def proofs(requested: dict[str, Any], files: dict[str, str], run: Any = RUN) -> dict[str, tuple[Any, Any, bool]]:
    line = " ".join(["ro", *parameters_of(requested)])
    system = FakeSystem({cmdline.FILE: line, "/proc/sys/kernel/version": "#1 SMP", **files})
    at = Scene(system=system, facts=FACTS, notes={NAME: run} if run else {})
    found = SETTING.verify(at, requested, "before")
    assert all(proof.evidence["source"] for proof in found)
    return {proof.subject: (proof.wanted, proof.found, proof.ok) for proof in found}


ISOLATED = {"isolcpus": "2-3"}


@pytest.mark.parametrize(
    ("requested", "files", "failed"),
    [
        (ISOLATED, {f"{CPUS}/isolated": "2-3\n"}, []),
        (ISOLATED, {f"{CPUS}/isolated": "\n"}, ["isolated CPUs"]),
        ({"isolcpus": "managed_irq,2-3"}, {f"{CPUS}/isolated": "\n"}, []),
        ({"nohz_full": "3,2"}, {f"{CPUS}/nohz_full": "2-3\n"}, []),
        ({"nohz_full": "2"}, {f"{CPUS}/nohz_full": "(null)\n"}, ["nohz_full CPUs"]),
        (
            {"hugepagesz": "1G", "hugepages": 2},
            {"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "1"},
            ["/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"],
        ),
        (
            {"transparent_hugepage": "never"},
            {"/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"},
            ["/sys/kernel/mm/transparent_hugepage/enabled"],
        ),
        ({"numa_balancing": "disable"}, {"/proc/sys/kernel/numa_balancing": "0"}, []),
        ({"numa_balancing": "disable"}, {}, ["/proc/sys/kernel/numa_balancing"]),
        ({"mitigations": "off"}, {f"{CPUS}/vulnerabilities/mds": "Vulnerable"}, []),
        ({"mitigations": "off"}, {f"{CPUS}/vulnerabilities/mds": "Mitigation: Clear CPU buffers"}, ["mitigations"]),
        ({"mitigations": "off"}, {f"{CPUS}/vulnerabilities/l1tf": "Mitigation: PTE Inversion; VMX: vulnerable"}, []),
        ({"intel_idle": {"max_cstate": 1}}, {}, ["/sys/module/intel_idle/parameters/max_cstate"]),
        ({"processor": {"max_cstate": 1}}, {"/sys/module/processor/parameters/max_cstate": "1"}, []),
        ({"skew_tick": 1}, {"/proc/sys/kernel/version": "#2 SMP"}, ["kernel build"]),
        ({"skew_tick": 1}, {cmdline.FILE: "ro"}, ["/proc/cmdline"]),
        ({"skew_tick": 1}, {cmdline.FILE: "ro skew_tick=1 skew_tick=0"}, ["/proc/cmdline"]),
    ],
)
def test_a_parameter_is_in_effect_if_the_kernel_shows_its_effect(
    requested: dict[str, Any], files: dict[str, str], failed: list[str]
) -> None:
    assert [subject for subject, (_, _, ok) in proofs(requested, files).items() if not ok] == failed


def test_the_boot_id_of_the_run_differs_from_that_before() -> None:
    assert proofs({"skew_tick": 1}, {})["boot"] == ("another than boot-0", "boot-1", True)
    assert not proofs({"skew_tick": 1}, {}, {**RUN, "boot_id": "boot-1"})["boot"][2]
    assert "boot" not in proofs({"skew_tick": 1}, {}, None)


@pytest.mark.parametrize(
    ("boot_with", "files"),
    [
        ("kexec", ("/boot/vmlinuz-5.14.0", "/boot/initramfs-5.14.0.img")),
        ("grub", ("/vmlinuz-5.14.0", "/initramfs-5.14.0.img")),
    ],
)
def test_another_kernel_has_its_own_files_and_name_in_the_command_line(boot_with: str, files: tuple[str, str]) -> None:
    facts = FACTS | {"kernel": {**FACTS["kernel"], "cmdline": "BOOT_IMAGE=/vmlinuz-4.18.0 ro"}}

    boot = SETTING.plan(facts, {"kernel": "5.14.0", "boot_with": boot_with}).boot

    assert (boot["image"], boot["initrd"]) == files and boot["release"] == "5.14.0"
    assert boot["line"] == "BOOT_IMAGE=/vmlinuz-5.14.0 ro"


def test_another_kernel_has_the_files_of_its_entry_of_systemd_boot() -> None:
    boot = SETTING.plan(FACTS, {"kernel": "5.14.0", "boot_with": "systemd-boot"}).boot

    assert (boot["image"], boot["initrd"]) == ("/rhel/5.14.0/linux", "/microcode /rhel/5.14.0/initrd")


@pytest.mark.parametrize(("running", "failed"), [("5.14.0\n", []), ("4.18.0\n", ["kernel"])])
def test_another_kernel_is_proven_by_its_release_and_may_be_another_build(running: str, failed: list[str]) -> None:
    files = {"/proc/sys/kernel/osrelease": running, "/proc/sys/kernel/version": "#2 SMP"}

    found = proofs({"kernel": "5.14.0"}, files, {**RUN, "release": "4.18.0"})

    assert [subject for subject, (_, _, ok) in found.items() if not ok] == failed and "/proc/cmdline" not in found


@pytest.mark.parametrize(
    ("requested", "other", "field"),
    [
        ({"transparent_hugepage": "never"}, {"transparent_huge_pages": {"enabled": "always"}}, "transparent_hugepage"),
        ({"numa_balancing": "disable"}, {"sysctl": {"kernel": {"numa_balancing": 1}}}, "numa_balancing"),
    ],
)
def test_two_settings_of_one_kernel_file_are_refused(
    requested: dict[str, Any], other: dict[str, Any], field: str
) -> None:
    settings = {NAME: requested, **other}

    with pytest.raises(Unplannable, match="either this or") as refused:
        check_together(settings, plan_settings(FACTS, settings))

    assert refused.value.field == f"{NAME}.{field}"


PRIVATE = {"kind": "private", "bin_dir": "/usr/bin", "data_dir": "/d", "os_user": "postgres"}
EXISTING = PRIVATE | {
    "kind": "existing",
    "config_file": "/d/postgresql.conf",
    "port": 5432,
    "unit": "",
    "include": "",
    "consent": {"restart": True, "disturb_clients": True},
}
SERVE = {"limit_s": 60, "listen": "10.0.0.1", "port": 5432, "clients": ["10.0.0.2"]}


@pytest.mark.parametrize(
    ("changes", "field", "accepted"),
    [
        ({"steps": [{"name": "again", "kind": "reboot", "options": {}}]}, "steps.again", "no other restart"),
        ({"target": EXISTING}, f"settings.{NAME}", "a private cluster"),
        ({"target": PRIVATE, "serve": SERVE}, f"settings.{NAME}", "no boot of the host in a run over several hosts"),
    ],
)
def test_a_spec_that_cannot_boot_its_host_is_refused(changes: dict[str, Any], field: str, accepted: str) -> None:
    with pytest.raises(Unplannable, match=accepted) as refused:
        check_spec(FACTS, {**SPEC, **changes})

    assert refused.value.field == field


@pytest.mark.parametrize("word", ["reboot", NAME])
def test_an_admin_of_the_host_can_forbid_kernel_parameters(word: str) -> None:
    check_spec(FACTS, SPEC)

    with pytest.raises(Unplannable, match="this host forbids"):
        policy.check({"forbid": [word]}, SPEC)

    policy.check({"forbid": ["reboot"]}, {**SPEC, "settings": {NAME: {}}})


class Restarting(FakeSystem):
    def reboot(self) -> None:
        return None


@pytest.mark.parametrize(
    ("defaults", "snippet", "is_prevented"),
    [
        ("LOAD_KEXEC=true", None, True),
        ('# defaults\n  LOAD_KEXEC="true"\n', None, True),
        ("LOAD_KEXEC=false", None, False),
        ("", None, False),
        ("LOAD_KEXEC=true", "LOAD_KEXEC=false", False),
        ("LOAD_KEXEC=false", "LOAD_KEXEC=true", True),
    ],
)
def test_debian_is_prevented_from_turning_a_restart_into_a_kexec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defaults: str, snippet: str | None, is_prevented: bool
) -> None:
    flag = tmp_path / "no-kexec-reboot"
    monkeypatch.setattr("agents.host.system.NO_KEXEC", str(flag))
    snippets = {"/etc/default/kexec.d/own": snippet} if snippet else {}

    Restarting({"/etc/default/kexec": defaults, **snippets}).restart_cold()

    assert flag.exists() is is_prevented


def test_isolated_cpus_are_allowed_although_no_process_starts_there() -> None:
    machine = FakeSystem({f"{CPUS}/online": "0-7", f"{CPUS}/isolated": "4-5"})

    assert cpus(machine, [])["allowed"] == "0-5"


def test_isolated_cpus_outside_of_the_cpuset_are_not_allowed() -> None:
    group = {"/proc/self/cgroup": "0::/a", "/sys/fs/cgroup/a/cpuset.cpus.effective": "0-4"}
    mounts = {"/proc/self/mountinfo": "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"}
    machine = FakeSystem({f"{CPUS}/online": "0-7", f"{CPUS}/isolated": "4-5", **group, **mounts})

    assert cpus(machine, [])["allowed"] == "0-4"


def test_later_settings_are_planned_with_isolated_cpus() -> None:
    after = SETTING.facts_after(FACTS, {"isolcpus": "3,2", "nohz_full": "2"})

    assert (after["cpus"]["isolated"], after["cpus"]["nohz_full"]) == ("2-3", "2")
