"""Memory, its NUMA nodes, huge pages and transparent huge pages."""

from __future__ import annotations

import re
from typing import Any

from ..host.system import System
from .read import NODES, bracketed, choices, number, online_cpus

HUGE = "/sys/kernel/mm/hugepages"
THP = "/sys/kernel/mm/transparent_hugepage"
POOL = {"per_node": "nr", "free_per_node": "free", "surplus_per_node": "surplus"}
WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave"


def numa(system: System) -> dict[str, Any]:
    ids = node_ids(system)
    if not ids:  # a kernel without NUMA is one node
        whole = {"id": 0, "cpus": online_cpus(system), "mem_kb": meminfo(system).get("MemTotal", 0)}
        return {"nodes": [whole], "distances": [[10]]}
    distances = [[int(d) for d in system.text(f"{NODES}/node{n}/distance").split()] for n in ids]
    return {"nodes": [_node(system, n) for n in ids], "distances": distances, **_weights(system)}


def _weights(system: System) -> dict[str, Any]:
    """{"weights": {"0": 1, ...}, "weights_auto": file that shows whether the kernel chose them}, since Linux 6.9."""
    names = system.names(WEIGHTS)
    weights = {name[4:]: int(system.text(f"{WEIGHTS}/{name}")) for name in names if name.startswith("node")}
    # The value auto. Some kernels show __auto_type, which their compiler made of it.
    modes = [f"{WEIGHTS}/{name}" for name in names if "auto" in name]
    return {"weights": weights, "weights_auto": modes[0] if modes else ""} if weights else {}


def node_ids(system: System) -> list[int]:
    """NUMA nodes of a kernel that has them; [] otherwise."""
    return sorted(int(name[4:]) for name in system.names(NODES) if re.fullmatch(r"node\d+", name))


def _node(system: System, node: int) -> dict[str, Any]:
    text = system.text(f"{NODES}/node{node}/meminfo")
    sizes = {name: int(kb) for name, kb in re.findall(r"(MemTotal|MemFree):\s+(\d+) kB", text)}
    cpus = system.text(f"{NODES}/node{node}/cpulist")
    return {"id": node, "cpus": cpus, "mem_kb": sizes.get("MemTotal", 0), "free_kb": sizes.get("MemFree", 0)}


def meminfo(system: System) -> dict[str, int]:
    """/proc/meminfo: {"MemTotal": kB, ..., "HugePages_Total": pages, ...}."""
    pairs = (line.split() for line in system.text("/proc/meminfo").splitlines())
    return {pair[0].rstrip(":"): int(pair[1]) for pair in pairs if len(pair) > 1}


def memory(system: System) -> dict[str, int]:
    info = meminfo(system)
    names = {"total_kb": "MemTotal", "available_kb": "MemAvailable", "free_kb": "MemFree", "swap_kb": "SwapTotal"}
    return {ours: info[theirs] for ours, theirs in names.items() if theirs in info}


def huge_pages(system: System) -> dict[str, Any]:
    sizes = [_pool(system, name) for name in system.names(HUGE)]
    return {"default_kb": meminfo(system).get("Hugepagesize", 0), "sizes": sorted(sizes, key=lambda s: int(s["kb"]))}


def _pool(system: System, size: str) -> dict[str, Any]:
    files = {"total": "nr", "free": "free", "surplus": "surplus", "reserved": "resv", "overcommit": "nr_overcommit"}
    whole = {ours: number(system, f"{HUGE}/{size}/{theirs}_hugepages") or 0 for ours, theirs in files.items()}
    return {
        "kb": int(re.sub(r"\D", "", size)),
        **whole,
        **{ours: _per_node(system, f"{size}/{theirs}_hugepages") for ours, theirs in POOL.items()},
    }


def _per_node(system: System, file: str) -> dict[str, int]:
    """Pages of each node that has a pool: the kernel gives none to a node without memory."""
    pages = {str(n): number(system, f"{NODES}/node{n}/hugepages/{file}") for n in node_ids(system)}
    return {node: count for node, count in pages.items() if count is not None}


def transparent_huge_pages(system: System) -> dict[str, Any]:
    """{} without THP."""
    texts = {name: system.text(f"{THP}/{name}") for name in ("enabled", "defrag", "shmem_enabled")}
    texts = {name: text for name, text in texts.items() if text}
    if not texts:
        return {}
    return {
        **{name: bracketed(text) for name, text in texts.items()},
        "choices": {name: choices(text) for name, text in texts.items()},
        "khugepaged": _khugepaged(system),
    }


def _khugepaged(system: System) -> dict[str, int]:
    """Return the parameters of khugepaged, without the counters full_scans and pages_collapsed."""
    names = (name for name in system.names(f"{THP}/khugepaged") if name not in ("full_scans", "pages_collapsed"))
    knobs = {name: number(system, f"{THP}/khugepaged/{name}") for name in names}
    return {name: value for name, value in knobs.items() if value is not None}
