"""Simultaneous multithreading (SMT): the kernel takes all but the first thread of each core offline, or none."""

from __future__ import annotations

from typing import Any

from ..errors import NotApplied, Unplannable
from ..host import cpulist
from ..host.system import System
from .base import Facts, Plan, Proof, Scene, Setting, Write

CPUS = "/sys/devices/system/cpu"
CONTROL, ACTIVE = f"{CPUS}/smt/control", f"{CPUS}/smt/active"
ONLINE, PRESENT = f"{CPUS}/online", f"{CPUS}/present"
ON, OFF = "on", "off"
SETTLE_S = 10.0  # CPUs go offline one after another
# Values of smt/control with which it cannot be switched, and why.
_FIXED = {
    "notsupported": "the processors have one thread per core, or the hypervisor shows them so",
    "notimplemented": "this architecture cannot switch it",
    "forceoff": "it is switched off until the next boot, by nosmt=force on the kernel's command line or by an admin",
}


class Smt(Setting):
    name = "smt"
    title = "SMT"
    help = "Simultaneous multithreading (Hyper-Threading) of all cores on or off, while the host runs (restored)"
    risk = "takes CPUs from all programs of the host during the run; programs pinned to them alone lose their pinning"
    level = "root"
    schema = {
        "type": "object",
        "title": "SMT",
        "properties": {
            "control": {
                "type": "string",
                "enum": [ON, OFF],
                "title": "SMT",
                "description": "smt/control of the kernel; off leaves the first thread of each core online",
            }
        },
        "required": ["control"],
        "additionalProperties": False,
    }

    def discover(self, system: System) -> dict[str, Any]:
        text = system.text(CONTROL)
        return {"control": text} if text in (ON, OFF) else {}

    def begins_anew(self, part: str) -> str:
        """The CPUs that a server runs on change under it, so a new one starts."""
        return "server"

    def plan(self, facts: Facts, requested: Any) -> Plan:
        control, present = requested["control"], facts["cpus"].get("smt", "")
        if present not in (ON, OFF):
            missing = "this kernel has no file smt/control (since Linux 4.19)"
            hint = _FIXED.get(present, "only on and off can be restored" if present else missing)
            accepted = f"nothing; smt/control of this kernel is {present or 'missing'}"
            raise Unplannable("smt.control", control, accepted, hint)
        if control == OFF and "cpuset" in facts.get("cgroup", {}).get("legacy", []):
            hint = "cpusets of version 1 of control groups lose CPUs that go offline, for good"
            raise Unplannable("smt.control", control, "on, because this host has cpusets of version 1", hint)
        return Plan(writes=[Write(CONTROL, control, settle_s=SETTLE_S)])

    def facts_after(self, facts: Facts, requested: Any) -> Facts:
        """Without the CPUs that go offline. Those that come online are unknown until then."""
        if requested["control"] != OFF:
            return facts
        left = first_threads(facts)
        nodes = [{**node, "cpus": _among(node["cpus"], left)} for node in facts["numa"]["nodes"]]
        cpus = facts["cpus"]
        after: dict[str, Any] = {
            "online": _among(cpus["online"], left),
            "allowed": _among(cpus["allowed"], left),
            "topology": [row for row in cpus["topology"] if row["cpu"] in left],
            "smt_off": cpulist.render(set(cpulist.parse(cpus["online"])) - left),
        }
        if "frequency" in cpus:  # an offline CPU has no files of its frequency
            policies = [{**each, "cpus": _among(each["cpus"], left)} for each in cpus["frequency"]["policies"]]
            after["frequency"] = {**cpus["frequency"], "policies": [each for each in policies if each["cpus"]]}
        return {**facts, "cpus": {**cpus, **after}, "numa": {**facts["numa"], "nodes": nodes}}

    def resolve(self, scene: Scene, plan: Plan, requested: Any) -> Plan:
        """Add the affinities of interrupts whose CPUs all go offline, because the kernel moves these and does not move
        them back. NotApplied if a CPU is already offline: switching SMT on again would bring it online."""
        if requested["control"] != OFF:
            return plan
        _check_all_online(scene.system)
        left = first_threads(scene.facts)
        lists = (f"/proc/irq/{irq}/smp_affinity_list" for irq in scene.system.names("/proc/irq") if irq.isdigit())
        stranded = [path for path in lists if _is_stranded(scene.system.text(path), left)]
        return plan.with_writes([Write(CONTROL, OFF, settle_s=SETTLE_S, resets=tuple(stranded))])

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        if phase not in ("before", "after"):
            return []
        active = "1" if requested["control"] == ON else "0"
        shown = {path: scene.system.text(path) for path in (ACTIVE, ONLINE)}
        proofs = super().verify(scene, requested, phase)
        proofs.append(Proof("smt/active", active, shown[ACTIVE], shown[ACTIVE] == active, {"source": ACTIVE}))
        if requested["control"] == OFF:
            expected = cpulist.render(first_threads(scene.facts))
            proofs.append(Proof("CPUs online", expected, shown[ONLINE], shown[ONLINE] == expected, {"source": ONLINE}))
        return proofs


def _check_all_online(system: System) -> None:
    offline = set(cpulist.parse(system.text(PRESENT))) - set(cpulist.parse(system.text(ONLINE)))
    if system.text(CONTROL) == ON and offline:
        actual = f"on, with CPU {cpulist.render(offline)} offline"
        hint = "switching SMT on again would bring it online: do so before the run"
        raise NotApplied("smt.control", "off, with all CPUs online before", actual, hint)


def first_threads(facts: Facts) -> set[int]:
    """The CPUs that stay online without SMT: the first thread of each core."""
    return {cpulist.parse(row["siblings"])[0] for row in facts["cpus"]["topology"]}


def _among(cpus: str, left: set[int]) -> str:
    return cpulist.render(set(cpulist.parse(cpus)) & left)


def _is_stranded(affinity: str, left: set[int]) -> bool:
    return bool(affinity) and not set(cpulist.parse(affinity)) & left
