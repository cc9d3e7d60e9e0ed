"""Memory, its NUMA nodes, huge pages and transparent huge pages."""

from __future__ import annotations

import re
from typing import Any

from ..system import System

NODES = "/sys/devices/system/node"
HUGE = "/sys/kernel/mm/hugepages"
THP = "/sys/kernel/mm/transparent_hugepage"
WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave"


def numa(system: System, online: str) -> dict[str, Any]:
    ids = node_ids(system)
    if not ids:  # a kernel without NUMA is one node
        return {"nodes": [{"id": 0, "cpus": online, "mem_kb": memory(system).get("total_kb", 0)}], "distances": [[10]]}
    nodes = [{"id": n, "cpus": system.text(f"{NODES}/node{n}/cpulist"), "mem_kb": _node_kb(system, n)} for n in ids]
    distances = [[int(d) for d in system.text(f"{NODES}/node{n}/distance").split()] for n in ids]
    return {"nodes": nodes, "distances": distances, **_weights(system)}


def _weights(system: System) -> dict[str, Any]:
    """{"weights": {"0": 1, ...}, "weights_auto": file that says whether the kernel chose them}, since Linux 6.9."""
    names = system.names(WEIGHTS)
    weights = {name[4:]: int(system.text(f"{WEIGHTS}/{name}")) for name in names if name.startswith("node")}
    # Named auto; some kernels were built with the name of what it means to their compiler, __auto_type.
    modes = [f"{WEIGHTS}/{name}" for name in names if "auto" in name]
    return {"weights": weights, "weights_auto": modes[0] if modes else ""} if weights else {}


def node_ids(system: System) -> list[int]:
    """NUMA nodes of a kernel that has them; [] otherwise."""
    return sorted(int(name[4:]) for name in system.names(NODES) if re.fullmatch(r"node\d+", name))


def _node_kb(system: System, node: int) -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", system.text(f"{NODES}/node{node}/meminfo"))
    return int(found.group(1)) if found else 0


def meminfo(system: System) -> dict[str, int]:
    """/proc/meminfo: {"MemTotal": kB, ..., "HugePages_Total": pages, ...}."""
    pairs = (line.split() for line in system.text("/proc/meminfo").splitlines())
    return {pair[0].rstrip(":"): int(pair[1]) for pair in pairs if len(pair) > 1}


def memory(system: System) -> dict[str, Any]:
    info = meminfo(system)
    names = {"total_kb": "MemTotal", "available_kb": "MemAvailable", "free_kb": "MemFree", "swap_kb": "SwapTotal"}
    return {ours: info[theirs] for ours, theirs in names.items() if theirs in info}


def huge_pages(system: System) -> dict[str, Any]:
    sizes = []
    for name in system.names(HUGE):
        kb = int(re.sub(r"\D", "", name))
        total, free = (int(system.text(f"{HUGE}/{name}/{f}_hugepages", "0") or 0) for f in ("nr", "free"))
        sizes.append({"kb": kb, "total": total, "free": free, "per_node": _per_node(system, name)})
    return {"default_kb": meminfo(system).get("Hugepagesize", 0), "sizes": sorted(sizes, key=lambda s: int(s["kb"]))}


def _per_node(system: System, size: str) -> dict[str, int]:
    path = f"{NODES}/node{{}}/hugepages/{size}/nr_hugepages"
    return {str(n): int(system.text(path.format(n), "0") or 0) for n in node_ids(system)}


def bracketed(text: str) -> str:
    """ "always [madvise] never" -> "madvise"."""
    found = re.search(r"\[([^\]]+)\]", text)
    return found.group(1) if found else text


def transparent_huge_pages(system: System) -> dict[str, Any]:
    """{"enabled": "madvise", "defrag": ..., "choices": {"enabled": [...], "defrag": [...]}}; {} without THP."""
    texts = {name: system.text(f"{THP}/{name}") for name in ("enabled", "defrag")}
    texts = {name: text for name, text in texts.items() if text}
    choices = {name: re.sub(r"[\[\]]", "", text).split() for name, text in texts.items()}
    return {**{name: bracketed(text) for name, text in texts.items()}, **({"choices": choices} if texts else {})}
