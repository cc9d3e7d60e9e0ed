"""Proofs from the text of kernel files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.settings import SETTINGS, Scene
from agents.settings.postgresql import normalise, same
from tests.agents.fakes import FakeSystem, stat_line

FACTS = json.loads((Path(__file__).parents[1] / "cases/facts.json").read_text())


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
    at, affinity, requested = (
        scene(server(postmaster="1", backend="1"), postmaster=10),
        SETTINGS["cpu_affinity"],
        {"server": "1"},
    )
    affinity.watch(at, requested)
    at.system.files["/proc/11/stat"] = stat_line(11, "postgres", parent=10, ticks=50, cpu=cpu)  # type: ignore[attr-defined]
    affinity.watch(at, requested)

    (proof,) = affinity.verify(at, requested, "after")

    assert (proof.found, proof.ok) == (share, share == 0)


def row(setting: str, unit: str | None, vartype: str, **more: Any) -> dict[str, Any]:
    return {"setting": setting, "unit": unit, "vartype": vartype, **more}


@pytest.mark.parametrize(
    ("requested", "shown"),
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
def test_a_value_equals_the_server_s_form_of_it(requested: str, shown: dict[str, Any]) -> None:
    assert same("name", requested, shown)


@pytest.mark.parametrize(
    ("requested", "shown"),
    [
        ("1GB", row("16384", "8kB", "integer")),
        ("100", row("101", None, "integer")),
        ("on", row("off", None, "bool")),
        ("many", row("1", "kB", "integer")),
    ],
)
def test_a_different_value_does_not_equal_the_shown_one(requested: str, shown: dict[str, Any]) -> None:
    assert not same("name", requested, shown)


@pytest.mark.parametrize(
    ("requested", "alike"), [("on", True), ("ON", True), ("pglz", True), ("lz4", False), ("off", False)]
)
def test_a_value_that_is_shown_by_another_name_is_that_value(requested: str, alike: bool) -> None:
    assert same("wal_compression", requested, row("pglz", None, "enum")) == alike
    assert same("wal_compression", requested, row("on", None, "bool")) == (requested.lower() == "on")


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
def test_a_parameter_is_in_effect_if_its_line_was_applied_and_not_overridden(changes: Any, ok: bool) -> None:
    at = scene({}, conf_file="/c", sql=lambda query: parameter(**changes))

    (proof,) = SETTINGS["postgresql"].verify(at, {"work_mem": "4MB"}, "before")

    assert proof.ok is ok
