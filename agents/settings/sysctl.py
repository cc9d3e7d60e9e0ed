"""Kernel parameters by their sysctl names, from the allow-list in sysctls.py."""

from __future__ import annotations

from typing import Any, Optional

from ..errors import NotApplied, Unplannable
from ..facts.memory import meminfo
from ..host import sysctls
from ..host.sysctls import BY_NAME, KNOBS, Knob
from ..host.system import System
from .base import Facts, Plan, Scene, Setting, Write, current

SCHED = "/sys/kernel/debug/sched"
FREE_SHARE = 0.05
# A host that may promise no more memory cannot start a process, not even the one that would put it back.
PROMISED = 0.8
FAST_SWAP = (5, 8)  # the kernel from which swappiness goes to 200


class Sysctl(Setting):
    name = "sysctl"
    title = "Kernel parameters"
    help = "Kernel parameters (sysctl) for memory, scheduler and network, from a list with ranges (restored afterwards)"
    unit = "see each field"
    risk = "changes memory management, scheduling or network of the whole host during the run"
    level = "root"
    schema = sysctls.schema()

    def discover(self, system: System) -> dict[str, Any]:
        values = {knob.name: _present(system, knob) for knob in KNOBS}
        return sysctls.nested({name: value for name, value in values.items() if value is not None})

    def plan(self, facts: Facts, requested: Any) -> Plan:
        values = sysctls.flat(requested)
        for name, value in values.items():
            _check(facts, BY_NAME[name], value, values)
        _check_background(facts, values)
        return Plan(writes=[_write(facts, knob, values[knob.name]) for knob in KNOBS if knob.name in values])

    def resolve(self, scene: Scene, plan: Plan, requested: Any) -> Plan:
        values = sysctls.flat(requested)
        if any(name.startswith("vm.overcommit_") for name in values):
            _check_promises(scene, values)
        return plan


def _present(system: System, knob: Knob) -> Optional[Any]:
    paths = [knob.path, *([f"{SCHED}/{knob.debug}"] if knob.debug else [])]
    path = next((path for path in paths if system.exists(path)), None)
    if path is None:
        return None
    text = current(system, path)
    return text if knob.schema["type"] == "string" else sysctls.number(text)


def _path(facts: Facts, knob: Knob) -> str:
    """Return its file on this kernel, or ""."""
    if knob.name in facts["sysctls"]:
        return knob.path
    there = knob.debug and knob.debug in facts.get("kernel", {}).get("sched", {})
    return f"{SCHED}/{knob.debug}" if there else ""


def _write(facts: Facts, knob: Knob, value: Any) -> Write:
    also = {BY_NAME[knob.rival].path: "0"} if knob.rival else {}
    return Write(_path(facts, knob), str(value), also=also)


def _check(facts: Facts, knob: Knob, value: Any, values: dict[str, Any]) -> None:
    field = f"sysctl.{knob.name}"
    if not _path(facts, knob):
        release = facts.get("kernel", {}).get("release", "")
        raise Unplannable(field, value, "nothing", f"Linux {release} has no {knob.name}".replace("  ", " "))
    if knob.rival in values:
        raise Unplannable(
            field, value, f"either {knob.name} or {knob.rival}", "the kernel keeps one and clears the other"
        )
    if knob.rival.startswith("vm.dirty") and {facts["sysctls"].get(n) for n in (knob.name, knob.rival)} == {"0"}:
        raise Unplannable(field, value, "a host on which one of the two is not 0, because it could not be restored")
    if knob.numbers > 1:
        _check_numbers(field, knob, value)
    if knob.choices_in and value not in facts["sysctls"].get(knob.choices_in, "").split():
        raise Unplannable(field, value, ", ".join(facts["sysctls"].get(knob.choices_in, "").split()), "load its module")
    _check_host(facts, knob, field, value)


def _check_numbers(field: str, knob: Knob, value: str) -> None:
    numbers = [int(part) for part in value.split()]
    if numbers != sorted(numbers) or not knob.low <= numbers[0] <= numbers[-1] <= knob.high:
        accepted = f"{knob.numbers} numbers from {knob.low} to {knob.high}, in ascending order"
        raise Unplannable(field, value, accepted)


def _check_host(facts: Facts, knob: Knob, field: str, value: Any) -> None:
    """Check values that depend on the memory or the kernel of the host."""
    total_kb = facts["memory"]["total_kb"]
    most = {
        "vm.dirty_bytes": total_kb * 1024,
        "vm.dirty_background_bytes": total_kb * 1024,
        "vm.overcommit_kbytes": total_kb * 10,
        "vm.min_free_kbytes": int(total_kb * FREE_SHARE),
        "vm.swappiness": 200 if _release(facts) >= FAST_SWAP else 100,
    }.get(knob.name, value)
    if not isinstance(value, str) and value > most:
        why = f"Linux {facts['kernel']['release']}" if knob.name == "vm.swappiness" else f"{total_kb} kB of memory"
        raise Unplannable(field, value, f"{knob.low} to {most} on this host with {why}")


def _release(facts: Facts) -> tuple[int, int]:
    """ "5.14.0-427.el9" -> (5, 14)."""
    major, minor = facts["kernel"]["release"].split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def _check_background(facts: Facts, values: dict[str, Any]) -> None:
    """The kernel silently halves a background limit that is not below the other one."""
    for unit in ("ratio", "bytes"):
        low, high = f"vm.dirty_background_{unit}", f"vm.dirty_{unit}"
        if not {low, high} & set(values):
            continue
        limits = {name: int(values.get(name, _unchanged(facts, values, name))) for name in (low, high)}
        if 0 < limits[high] <= limits[low]:
            named = low if low in values else high
            accepted = (
                f"less than {high}, which is {limits[high]}"
                if named == low
                else f"more than {low}, which is {limits[low]}"
            )
            raise Unplannable(f"sysctl.{named}", values[named], accepted)


def _unchanged(facts: Facts, values: dict[str, Any], name: str) -> int:
    """Return the present value, or 0 if its rival is set."""
    return 0 if BY_NAME[name].rival in values else int(facts["sysctls"].get(name, 0))


def _check_promises(scene: Scene, values: dict[str, Any]) -> None:
    mode, ratio, kbytes = (
        int(values.get(name, _unchanged(scene.facts, values, name)))
        for name in ("vm.overcommit_memory", "vm.overcommit_ratio", "vm.overcommit_kbytes")
    )
    info = meminfo(scene.system)
    memory = info["MemTotal"] - info.get("HugePages_Total", 0) * info.get("Hugepagesize", 0)
    limit, promised = (kbytes or memory * ratio // 100) + info["SwapTotal"], info["Committed_AS"]
    if mode == 2 and promised > limit * PROMISED:
        raise NotApplied(
            "sysctl",
            f"vm.overcommit_memory = 2 with {limit} kB to promise",
            f"{promised} kB already committed",
            f"not attempted, because no process could start: allow {int(promised / PROMISED)} kB or more",
        )
