"""Which facts of a host its page shows, and in which words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from apps.hosts.models import Host
from apps.hosts.pages.host_pairs import connection_pairs, fact_pairs, supervision_pairs
from apps.web.pairs import Pair
from tests.servers import machine


def texts(pairs: Iterable[Pair]) -> dict[str, str]:
    """Name -> the text of all parts, with "/" for a new line."""
    return {
        each.name: ", ".join(each.items) or "".join("/" if part.look == "break" else part.text for part in each.parts)
        for each in pairs
    }


def test_a_host_with_all_facts_has_a_line_for_each() -> None:
    assert texts(fact_pairs(machine.facts())) == {
        "System": "Debian GNU/Linux 13 (trixie)",
        "Machine": "Dell Inc. PowerEdge R640",
        "Firmware": "Dell Inc. 2.21.0 of 11/21/2023; microcode 0x2007006",
        "Kernel": "6.12.48-amd64 x86_64, clock tsc/quiet",
        "Kernel parameters": "A campaign can change them, with kexec.",
        "CPU": "Intel(R) Xeon(R) Gold 6134 CPU @ 3.20GHz; online 0-15, SMT on",
        "Frequency": "performance (intel_cpufreq), 1.2 GHz to 3.7 GHz on cpus 0-15/boost on",
        "Idle states": "POLL 0 µs, C1 2 µs, C1E 10 µs, C6 133 µs(intel_idle)",
        "Memory": "62.75 GiB, 57.22 GiB available, no swap",
        "Huge pages": "2 MiB: 0 in the pool; 1 GiB: 0 in the pool",
        "Transparent huge pages": "madvise, defrag madvise",
        "Limits of the agent": "154000 processes",
        "Control groups": "version 2; runs can limit cpu, cpuset, io, memory",
        "Tools": "taskset 2.41, numactl 2.0.19, fio 3.39, psql 17.6, pgbench 17.6",
    }


def test_facts_of_an_older_agent_have_the_lines_that_every_host_has() -> None:
    assert texts(fact_pairs({"hostname": "bench-01"})) == {
        "System": "",
        "Kernel": " ",
        "CPU": "–; online ",
        "Memory": "–, no swap",
        "Huge pages": "none",
        "Transparent huge pages": "–",
        "Limits of the agent": "none by control groups",
        "Tools": "none found",
    }


@pytest.mark.parametrize(
    ("section", "changes", "name", "text"),
    [
        ("firmware", {"bios_version": ""}, "Firmware", "microcode 0x2007006"),
        (
            "boot",
            {"problem": "kexec is missing"},
            "Kernel parameters",
            "A campaign cannot change them. kexec: kexec is missing.",
        ),
        (
            "boot",
            {"problem": "kexec is missing", "grub": {"problem": ""}},
            "Kernel parameters",
            "A campaign can change them, with GRUB. kexec: kexec is missing.",
        ),
        (
            "boot",
            {"problem": "", "grub": {"problem": "it is full"}},
            "Kernel parameters",
            "A campaign can change them, with kexec. GRUB: it is full.",
        ),
        (
            "boot",
            {"problem": "", "grub": {"problem": "no grub.cfg"}, "systemd_boot": {"problem": ""}},
            "Kernel parameters",
            "A campaign can change them, with kexec or systemd-boot. GRUB: no grub.cfg.",
        ),
        (
            "boot",
            {"problem": "", "kernels": [{"release": "6.1.0-9"}, {"release": "6.12.1"}]},
            "Kernel parameters",
            "A campaign can change them, with kexec. Installed kernels: 6.1.0-9, 6.12.1.",
        ),
        (
            "cpus",
            {"allowed": "0-3", "isolated": "4-7", "model": "X"},
            "CPU",
            "X; online 0-15, allowed 0-3, SMT on, isolated 4-7",
        ),
        ("memory", {"swap_kb": 1048576, "available_kb": None}, "Memory", "62.75 GiB, swap 1 GiB"),
        (
            "huge_pages",
            {"sizes": [{"kb": 2048, "total": 8, "free": 3, "surplus": 2}]},
            "Huge pages",
            "2 MiB: 8 in the pool, 3 free, 2 surplus",
        ),
        (
            "limits",
            {"cpu_quota": 1.5, "cpuset_mems": "0"},
            "Limits of the agent",
            "time of 1.5 cpus, memory of nodes 0, 154000 processes",
        ),
    ],
)
def test_a_line_says_what_differs(section: str, changes: dict[str, Any], name: str, text: str) -> None:
    facts = machine.facts()

    assert texts(fact_pairs(facts | {section: facts[section] | changes}))[name] == text


def test_what_the_admin_of_a_host_forbids_is_shown_with_its_connection() -> None:
    host = Host(name="bench-01", user="proving", address="10.0.0.1", launcher=True, labels=["oltp", "b2"])

    shown = texts(connection_pairs(host, {"policy": {"forbid": ["boot", "huge_pages"], "directories": ["/srv"]}}))

    assert shown["Address"] == "proving@10.0.0.1:22"
    assert shown["Narrowed"] == "forbidden: boot, huge_pages. directories: /srv."
    assert (shown["Labels"], shown["Last contact"]) == ("oltp, b2", "never")
    assert shown["Started by"] == "proving-agent, which verifies the server's signature"


def test_a_host_without_systemd_or_root_says_what_that_means() -> None:
    shown = texts(supervision_pairs(Host(supervisor="none", units="unavailable", level="user")))

    assert shown == {
        "Supervisor": "none: the next contact restores what is left",
        "systemd units": "unavailable: requires level root and systemd as PID 1",
        "Planned restarts": "not allowed; requires level root",
    }
