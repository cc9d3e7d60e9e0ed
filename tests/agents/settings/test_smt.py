"""SMT on a simulated machine: the CPUs that stay online, the interrupts that are restored, and the proofs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.errors import NotApplied
from agents.settings import SETTINGS, Scene
from tests.agents.fakes import FakeSystem

FACTS = json.loads((Path(__file__).parents[1] / "cases/facts.json").read_text())
CPUS = "/sys/devices/system/cpu"
SMT = SETTINGS["smt"]
OFF = {"control": "off"}


def scene(**files: str) -> Scene:
    named = {f"{CPUS}/{name.replace('__', '/')}": text for name, text in files.items()}
    return Scene(system=FakeSystem(named), facts=FACTS)


@pytest.mark.parametrize(
    ("active", "online", "failed"),
    [("0", "0-3", []), ("1", "0-3", ["smt/active"]), ("0", "0-4", ["CPUs online"])],
)
def test_smt_is_off_when_no_core_has_two_threads_online(active: str, online: str, failed: list[str]) -> None:
    at = scene(smt__control="off\n", smt__active=f"{active}\n", online=f"{online}\n")

    proofs = [proof for phase in ("before", "after") for proof in SMT.verify(at, OFF, phase)]

    assert [proof.subject for proof in proofs if not proof.ok] == failed * 2
    assert all(proof.evidence["source"] for proof in proofs)


def test_interrupts_of_cpus_that_go_offline_are_restored() -> None:
    at = scene(smt__control="on\n")
    lists = {"4": "5-6", "5": "0-7", "6": "4", "default": "4"}
    at.system.files.update({f"/proc/irq/{irq}/smp_affinity_list": text for irq, text in lists.items()})  # type: ignore[attr-defined]

    (write,) = SMT.resolve(at, SMT.plan(FACTS, OFF), OFF).writes

    assert write.resets == ("/proc/irq/4/smp_affinity_list", "/proc/irq/6/smp_affinity_list")


def test_smt_stays_on_while_a_cpu_is_offline_that_restoring_would_bring_online() -> None:
    at = scene(smt__control="on\n", present="0-7\n", online="0-4,6-7\n")

    with pytest.raises(NotApplied, match="is on, with CPU 5 offline"):
        SMT.resolve(at, SMT.plan(FACTS, OFF), OFF)


def test_siblings_that_are_offline_because_smt_is_off_are_no_obstacle() -> None:
    at = scene(smt__control="off\n", present="0-7\n", online="0-3\n")

    assert SMT.resolve(at, SMT.plan(FACTS, OFF), OFF).writes


def test_facts_without_smt_have_the_first_thread_of_each_core_only() -> None:
    after = SMT.facts_after(FACTS, OFF)

    assert (after["cpus"]["online"], after["cpus"]["smt_off"]) == ("0-3", "4-7")
    assert [row["cpu"] for row in after["cpus"]["topology"]] == [0, 1, 2, 3]
    assert [node["cpus"] for node in after["numa"]["nodes"]] == ["1,3", "0,2"]
    assert SMT.facts_after(FACTS, {"control": "on"}) == FACTS
