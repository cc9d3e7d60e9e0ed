"""How fast the processors run and how deep they sleep: governor, boost, preference, and a bound on wake-up latency."""

from __future__ import annotations

import struct
from typing import Any

from ..errors import Unplannable
from ..host import cpulist
from ..host.system import System
from .base import Facts, Hold, Plan, Proof, Scene, Setting, Write

CPUS = "/sys/devices/system/cpu"
QOS = "/dev/cpu_dma_latency"
PREFERENCES = ("performance", "balance_performance", "balance_power", "power")
_PREFERENCE = "energy_performance_preference"


class CpuPower(Setting):
    name = "cpu_power"
    title = "CPU frequency and idle states"
    help = "Governor, boost and energy preference of all CPUs, and a limit on the latency of idle states (restored)"
    unit = "us for the latency"
    risk = "more power and heat for the whole host during the run"
    level = "root"
    schema = {
        "type": "object",
        "title": "CPU frequency and idle states",
        "properties": {
            "governor": {
                "type": "string",
                "pattern": "^[a-z_]{1,40}$",
                "title": "Governor",
                "description": "scaling_governor of all CPUs, such as performance, powersave, schedutil",
            },
            "boost": {
                "type": "boolean",
                "title": "Boost",
                "description": "Frequencies above the nominal one (turbo)",
            },
            "preference": {
                "type": "string",
                "enum": list(PREFERENCES),
                "title": "Energy preference",
                "description": "energy_performance_preference of all CPUs, if the driver has one",
            },
            "latency_us": {
                "type": "integer",
                "minimum": 0,
                "maximum": 1000000,
                "title": "Longest wake-up latency (us)",
                "description": "Idle states with a longer wake-up latency are not used (PM QoS); 0: polling only",
            },
        },
        "additionalProperties": False,
    }

    def discover(self, system: System) -> dict[str, Any]:
        cpu0 = f"{CPUS}/cpu0/cpufreq"
        texts = {"governor": f"{cpu0}/scaling_governor", "preference": f"{cpu0}/{_PREFERENCE}"}
        values: dict[str, Any] = {name: text for name, path in texts.items() for text in [system.text(path)] if text}
        if system.exists(QOS) and system.level() == "root":
            values["latency_us"] = latency(system)
        return values

    def plan(self, facts: Facts, requested: Any) -> Plan:
        writes = []
        if "governor" in requested:
            writes += _governor(facts, requested["governor"])
        if "boost" in requested:
            writes.append(_boost(facts, requested["boost"]))
        if "preference" in requested:
            writes += _preference(facts, requested["preference"])
        return Plan(writes=writes, holds=[_hold(facts, requested["latency_us"])] if "latency_us" in requested else [])

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        proofs = super().verify(scene, requested, phase)
        if "latency_us" in requested and phase in ("before", "after"):
            actual = latency(scene.system)
            subject = "longest wake-up latency (us)"
            proofs.append(
                Proof(subject, requested["latency_us"], actual, actual == requested["latency_us"], {"source": QOS})
            )
        return proofs


def latency(system: System) -> int:
    """The lowest latency that the holders of the device request, in us; 2000000000 without any."""
    return int(struct.unpack("=i", system.data(QOS, 4))[0])


def _policies(facts: Facts, field: str, value: Any) -> list[dict[str, Any]]:
    policies: list[dict[str, Any]] = facts["cpus"]["frequency"]["policies"]
    if not policies:
        hint = "this kernel does not control frequencies; on a virtual machine, its host does"
        raise Unplannable(f"cpu_power.{field}", value, "nothing", hint)
    return policies


def _governor(facts: Facts, governor: str) -> list[Write]:
    writes = []
    for policy in _policies(facts, "governor", governor):
        if governor not in policy["governors"]:
            accepted = f"{', '.join(policy['governors'])} on CPU {policy['cpus']}"
            raise Unplannable("cpu_power.governor", governor, accepted)
        for cpu in cpulist.parse(policy["cpus"]):
            path = f"{CPUS}/cpu{cpu}/cpufreq"
            # With the governor performance, drivers set the preference themselves and keep it.
            resets = (f"{path}/{_PREFERENCE}",) if "preference" in policy else ()
            writes.append(Write(f"{path}/scaling_governor", governor, resets=resets))
    return writes


def _boost(facts: Facts, on: bool) -> Write:
    frequency = facts["cpus"]["frequency"]
    if "boost" not in frequency:
        raise Unplannable(
            "cpu_power.boost", on, "nothing", "this kernel has no boost; on a virtual machine, its host controls it"
        )
    if frequency.get("pstate") in ("active", "passive"):
        return Write(f"{CPUS}/intel_pstate/no_turbo", "0" if on else "1")
    return Write(f"{CPUS}/cpufreq/boost", "1" if on else "0")


def _preference(facts: Facts, preference: str) -> list[Write]:
    policies = _policies(facts, "preference", preference)
    lacking = [policy["cpus"] for policy in policies if "preference" not in policy]
    if lacking:
        hint = f"the driver of CPU {lacking[0]} has no {_PREFERENCE}"
        raise Unplannable("cpu_power.preference", preference, "nothing", hint)
    cpus = [cpu for policy in policies for cpu in cpulist.parse(policy["cpus"])]
    return [Write(f"{CPUS}/cpu{cpu}/cpufreq/{_PREFERENCE}", preference) for cpu in cpus]


def _hold(facts: Facts, us: int) -> Hold:
    if not facts["cpus"]["idle"]["dma_latency"]:
        raise Unplannable("cpu_power.latency_us", us, "nothing", f"this kernel has no {QOS}")
    return Hold(QOS, struct.pack("=i", us), str(us))
