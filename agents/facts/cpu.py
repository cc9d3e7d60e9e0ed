"""Processors: how they are numbered over sockets, cores and nodes, their caches, frequencies and idle states."""

from __future__ import annotations

import platform
from typing import Any, Optional

from ..host import cpulist
from ..host.system import System
from .limits import cpuset
from .read import CPUS, flag, known, number, online_cpus

Block = dict[str, str]


def cpus(system: System, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    allowed = cpulist.render({*system.allowed_cpus(), *_isolated(system)})
    shown = online_cpus(system)
    info = _cpuinfo(system)
    node_of = {cpu: node["id"] for node in nodes for cpu in cpulist.parse(node["cpus"])}
    rows = [_place(system, cpu, info.get(cpu, {}), node_of.get(cpu, 0)) for cpu in cpulist.parse(shown)]
    _pair(rows)
    return {
        "online": shown,
        "allowed": allowed,
        "sockets": len({row["socket"] for row in rows}),
        "cores": len({(row["socket"], row["siblings"]) for row in rows}),
        "threads": len(rows),
        "model": next((block.get("model name", "") for block in info.values()), "") or platform.processor(),
        "topology": rows,
        "frequency": _frequency(system),
        "idle": _idle(system),
        **known((name, _cpulist(system, name)) for name in ("isolated", "nohz_full")),
        **known([("smt", system.text(f"{CPUS}/smt/control"))]),
    }


def _isolated(system: System) -> set[int]:
    """CPUs that are missing from our initial affinity because they are isolated, but that we may choose."""
    isolated = set(cpulist.parse(_cpulist(system, "isolated")))
    bound = cpuset(system) if isolated else ""
    return isolated & set(cpulist.parse(bound)) if bound else isolated


def _cpulist(system: System, name: str) -> str:
    """A kernel without the feature shows "(null)"."""
    text = system.text(f"{CPUS}/{name}")
    return text if text[:1].isdigit() else ""


def _place(system: System, cpu: int, block: Block, node: int) -> dict[str, Any]:
    """Socket and core of a cpu, from /sys, else from /proc/cpuinfo; else each cpu counts as a core."""
    topology = f"{CPUS}/cpu{cpu}/topology"
    socket = system.text(f"{topology}/physical_package_id") or block.get("physical id") or "0"
    core = system.text(f"{topology}/core_id") or block.get("core id") or str(cpu)
    siblings = system.text(f"{topology}/thread_siblings_list")
    return {"cpu": cpu, "socket": max(0, int(socket)), "core": int(core), "node": node, "siblings": siblings}


def _pair(rows: list[dict[str, Any]]) -> None:
    """Threads of one core name each other also where /sys does not: they have socket and core in common."""
    for row in rows:
        place = (row["socket"], row["core"])
        same = (
            [other["cpu"] for other in rows if (other["socket"], other["core"]) == place] if not row["siblings"] else []
        )
        row["siblings"] = row["siblings"] or cpulist.render(same)


def _cpuinfo(system: System) -> dict[int, Block]:
    blocks = {}
    for text in system.text("/proc/cpuinfo").split("\n\n"):
        pairs = (line.partition(":") for line in text.splitlines())
        block = {key.strip(): value.strip() for key, _, value in pairs}
        if block.get("processor", "").isdigit():
            blocks[int(block["processor"])] = block
    return blocks


def microcode(system: System) -> str:
    """Revision of the microcode; the same on all cpus of a machine that boots."""
    return next((block.get("microcode", "") for block in _cpuinfo(system).values()), "")


def caches(system: System) -> list[dict[str, Any]]:
    """One row per level and type, with the cpus that share each of them."""
    rows: dict[tuple[int, str, int], list[str]] = {}
    for cpu in cpulist.parse(online_cpus(system)):
        _add_caches(system, cpu, rows)
    return [{"level": key[0], "type": key[1], "kb": key[2], "shared": shared} for key, shared in sorted(rows.items())]


def _add_caches(system: System, cpu: int, rows: dict[tuple[int, str, int], list[str]]) -> None:
    for index in system.names(f"{CPUS}/cpu{cpu}/cache"):
        path = f"{CPUS}/cpu{cpu}/cache/{index}"
        shared = system.text(f"{path}/shared_cpu_list")
        if not shared or cpulist.parse(shared)[0] != cpu:
            continue  # reported for the first cpu that shares it
        size = system.text(f"{path}/size").rstrip("K")
        key = (int(system.text(f"{path}/level", "0")), system.text(f"{path}/type"), int(size or 0))
        rows.setdefault(key, []).append(shared)


def _frequency(system: System) -> dict[str, Any]:
    """Policies that say the same are one row, with all of their cpus."""
    grouped: dict[str, tuple[list[int], dict[str, Any]]] = {}
    for name in system.names(f"{CPUS}/cpufreq"):
        if name.startswith("policy"):
            policy = _policy(system, f"{CPUS}/cpufreq/{name}")
            members, _ = grouped.setdefault(str(policy), ([], policy))
            members += [int(cpu) for cpu in system.text(f"{CPUS}/cpufreq/{name}/related_cpus").split()]
    rows = [{"cpus": cpulist.render(members), **policy} for members, policy in grouped.values()]
    return {
        **known([("boost", _boost(system)), ("pstate", system.text(f"{CPUS}/intel_pstate/status"))]),
        "policies": rows,
    }


def _policy(system: System, path: str) -> dict[str, Any]:
    files = {"driver": "scaling_driver", "governor": "scaling_governor", "preference": "energy_performance_preference"}
    khz = {"min_khz": "scaling_min_freq", "max_khz": "scaling_max_freq", "base_khz": "base_frequency"}
    khz |= {"lowest_khz": "cpuinfo_min_freq", "highest_khz": "cpuinfo_max_freq"}
    return {
        **known((ours, system.text(f"{path}/{theirs}")) for ours, theirs in files.items()),
        "governors": system.text(f"{path}/scaling_available_governors").split(),
        **known((ours, number(system, f"{path}/{theirs}")) for ours, theirs in khz.items()),
    }


def _boost(system: System) -> Optional[bool]:
    no_turbo = flag(system, f"{CPUS}/intel_pstate/no_turbo")
    return flag(system, f"{CPUS}/cpufreq/boost") if no_turbo is None else not no_turbo


def _idle(system: System) -> dict[str, Any]:
    """Driver, governor, the states of the first cpu, and whether a latency can be requested (PM QoS)."""
    states = f"{CPUS}/cpu{cpulist.parse(online_cpus(system))[0]}/cpuidle"
    governor = system.text(f"{CPUS}/cpuidle/current_governor") or system.text(f"{CPUS}/cpuidle/current_governor_ro")
    return {
        **known([("driver", system.text(f"{CPUS}/cpuidle/current_driver")), ("governor", governor)]),
        "states": [_state(system, f"{states}/{name}") for name in system.names(states) if name.startswith("state")],
        "dma_latency": system.exists("/dev/cpu_dma_latency"),
    }


def _state(system: System, path: str) -> dict[str, Any]:
    return {
        "name": system.text(f"{path}/name"),
        **known(
            [("latency_us", number(system, f"{path}/latency")), ("residency_us", number(system, f"{path}/residency"))]
        ),
        "disabled": bool(flag(system, f"{path}/disable")),
    }
