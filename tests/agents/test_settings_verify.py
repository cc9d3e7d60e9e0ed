"""Proofs read from the texts that kernels write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.errors import NotApplied, Unplannable
from agents.settings import SETTINGS, Scene
from agents.settings.huge_pages import shared_mapping_kb
from agents.settings.numa import pages, policies
from agents.settings.postgresql import _same, normalise

from .fakes import FakeSystem, stat_line

FACTS = json.loads((Path(__file__).parent / "cases/facts.json").read_text())


def scene(files: dict[str, str], **more: Any) -> Scene:
    return Scene(system=FakeSystem(files), facts=FACTS, **more)


def server(**cpus: str) -> dict[str, str]:
    """/proc of a postmaster (pid 10) with one backend (pid 11)."""
    return {
        "/proc/10/task/10/children": "11",
        "/proc/11/task/11/children": "",
        "/proc/10/stat": stat_line(10, "postgres"),
        "/proc/11/stat": stat_line(11, "postgres", parent=10),
        "/proc/10/status": f"Name:\tpostgres\nCpus_allowed_list:\t{cpus['postmaster']}\n",
        "/proc/11/status": f"Name:\tpostgres\nCpus_allowed_list:\t{cpus['backend']}\n",
    }


def test_affinity_holds_when_every_process_has_the_wanted_list() -> None:
    at = scene(server(postmaster="1-2", backend="1-2"), postmaster=10)

    (proof,) = SETTINGS["cpu_affinity"].verify(at, {"server": "0x6"}, "during")

    assert proof.ok and proof.found == "1-2"
    assert [p["pid"] for p in proof.evidence["processes"]] == [10, 11]


def test_affinity_fails_when_one_backend_escaped() -> None:
    at = scene(server(postmaster="1-2", backend="0-7"), postmaster=10)

    (proof,) = SETTINGS["cpu_affinity"].verify(at, {"server": "0x6"}, "during")

    assert not proof.ok and proof.wanted == "1-2" and proof.found == "0-7 1-2"


@pytest.mark.parametrize(("cpu", "share"), [(1, 0.0), (3, 1.0)])
def test_cpu_time_outside_the_wanted_cpus_is_counted(cpu: int, share: float) -> None:
    at, affinity, wanted = (
        scene(server(postmaster="1", backend="1"), postmaster=10),
        SETTINGS["cpu_affinity"],
        {"server": "1"},
    )
    affinity.watch(at, wanted)
    at.system.files["/proc/11/stat"] = stat_line(11, "postgres", parent=10, ticks=50, cpu=cpu)  # type: ignore[attr-defined]
    affinity.watch(at, wanted)

    (proof,) = affinity.verify(at, wanted, "after")

    assert (proof.found, proof.ok) == (share, share == 0)


MAPS = """\
55d0 interleave:0-1 heap anon=4 dirty=4 N0=2 N1=2 kernelpagesize_kB=4
7f00 {shared} file=/dev/zero\\040(deleted) dirty=9 N0=4 N1=5 kernelpagesize_kB=2048
7f10 interleave:0-1 anon=1 N0=1 kernelpagesize_kB=4
"""


def test_numa_policy_is_read_from_private_mappings_as_the_shared_segment_says_default() -> None:
    maps = MAPS.format(shared="default")

    assert policies(maps) == {"interleave:0-1"}
    assert policies(maps.replace("interleave:", "interleave=")) == {"interleave:0-1"}
    assert pages(maps) == {"shared": {"0": 8192, "1": 10240}, "private": {"0": 12, "1": 8}}


def test_numa_default_is_not_interleave() -> None:
    at = scene(
        {**server(postmaster="0", backend="0"), "/proc/10/numa_maps": MAPS.replace("interleave:0-1", "default")},
        postmaster=10,
    )

    (proof,) = SETTINGS["numa"].verify(at, {"policy": "interleave", "nodes": "all"}, "before")

    assert (proof.ok, proof.wanted, proof.found) == (False, "interleave:0-1", "default")


SMAPS = """\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 [heap]
Size:            9999999 kB
KernelPageSize:        4 kB
7f0000000000-7f0010000000 rw-s 00000000 00:0f 123 /anon_hugepage (deleted)
Size:             262144 kB
KernelPageSize:     2048 kB
7f0000000000-7f0000001000 rw-s 00000000 00:01 9 /dev/zero (deleted)
Size:                  4 kB
KernelPageSize:        4 kB
"""


def test_page_size_is_that_of_the_largest_shared_mapping() -> None:
    assert shared_mapping_kb(SMAPS) == 2048
    assert shared_mapping_kb("") == 0


def meminfo(total: int, free: int, reserved: int = 0, available: int = 8_000_000) -> dict[str, str]:
    text = (
        f"MemAvailable: {available} kB\nHugePages_Total: {total}\nHugePages_Free: {free}\nHugePages_Rsvd: {reserved}\n"
    )
    return {"/proc/meminfo": text + "HugePages_Surp: 0\nHugepagesize: 2048 kB\n"}


def resolved(files: dict[str, str], wanted: dict[str, Any], needed: int, major: int = 18) -> list[str]:
    setting = SETTINGS["huge_pages"]
    at = scene(files, major=major, huge_pages_needed=lambda: needed)
    return [write.wanted for write in setting.resolve(at, setting.plan(FACTS, wanted), wanted).writes]


@pytest.mark.parametrize(
    ("total", "free", "reserved", "target"),
    [(0, 0, 0, "100"), (40, 40, 0, "100"), (40, 30, 0, "110"), (200, 150, 0, "200"), (200, 150, 100, "250")],
)
def test_the_pool_grows_by_what_is_not_free_already(total: int, free: int, reserved: int, target: str) -> None:
    assert resolved(meminfo(total, free, reserved), {"use": "on"}, needed=100) == [target]


def test_more_than_the_memory_is_not_even_asked_of_the_kernel() -> None:
    with pytest.raises(NotApplied) as failure:
        resolved(meminfo(0, 0, available=1_000_000), {"use": "on", "pool": 5000}, needed=100)

    assert failure.value.details["wanted"] == "5000 pages of 2048 kB (10000 MB more)"
    assert "which allow 439 pages" in failure.value.details["found"]


def test_a_pool_too_small_for_the_server_is_told_before_it_starts() -> None:
    with pytest.raises(NotApplied, match="wanted 100 free pages for this shared_buffers, found a pool of 50 pages"):
        resolved(meminfo(0, 0), {"use": "on", "pool": 50}, needed=100)


def test_auto_needs_a_server_that_knows_its_need() -> None:
    with pytest.raises(Unplannable, match="a number of pages"):
        resolved(meminfo(0, 0), {"use": "on"}, needed=0, major=14)


def row(setting: str, unit: str | None, vartype: str, **more: Any) -> dict[str, Any]:
    return {"setting": setting, "unit": unit, "vartype": vartype, **more}


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ("1GB", row("131072", "8kB", "integer")),
        ("64MB", row("65536", "kB", "integer")),
        ("16384", row("16384", "8kB", "integer")),
        ("15min", row("900", "s", "integer")),
        ("-1", row("-1", "ms", "integer")),
        ("200ms", row("200", "ms", "integer")),
        ("1.1", row("1.1", None, "real")),
        ("yes", row("on", None, "bool")),
        ("Replica", row("replica", None, "enum")),
        ("o'neil", row("o'neil", None, "string")),
    ],
)
def test_a_value_equals_what_the_server_made_of_it(wanted: str, shown: dict[str, Any]) -> None:
    assert _same(wanted, shown)


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [("1GB", row("16384", "8kB", "integer")), ("on", row("off", None, "bool")), ("many", row("1", "kB", "integer"))],
)
def test_another_value_does_not(wanted: str, shown: dict[str, Any]) -> None:
    assert not _same(wanted, shown)


def test_units_are_normalised() -> None:
    assert normalise("1GB", "8kB", "integer") == 2**30
    assert normalise("2", "8kB", "integer") == 16384
    assert normalise("0x10", "", "integer") == 16


def parameter(**changes: Any) -> dict[str, Any]:
    setting = row(
        "4096",
        "kB",
        "integer",
        source="configuration file",
        sourcefile="/c",
        sourceline=1,
        pending_restart=False,
        show="4MB",
    )
    line = {"file": "/c", "name": "work_mem", "setting": "4MB", "applied": True, "error": None}
    return {
        "settings": {"work_mem": {**setting, **changes.get("settings", {})}},
        "file": [{**line, **changes.get("file", {})}],
    }


@pytest.mark.parametrize(
    ("changes", "ok"),
    [
        ({}, True),
        ({"settings": {"pending_restart": True}}, False),
        ({"settings": {"sourcefile": "/postgresql.auto.conf"}}, False),
        ({"file": {"applied": False, "error": "invalid value"}}, False),
        ({"settings": {"setting": "8192"}}, False),
    ],
)
def test_a_parameter_is_in_effect_when_our_line_was_applied_and_nothing_overrides_it(changes: Any, ok: bool) -> None:
    at = scene({}, conf_file="/c", sql=lambda query: parameter(**changes))

    (proof,) = SETTINGS["postgresql"].verify(at, {"work_mem": "4MB"}, "before")

    assert proof.ok is ok
