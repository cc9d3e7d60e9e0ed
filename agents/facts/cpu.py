"""Processors: which are online, and the socket and core that each of them belongs to."""

from __future__ import annotations

import platform
from typing import Any

from .. import cpulist
from ..system import System

CPUS = "/sys/devices/system/cpu"


def cpus(system: System) -> dict[str, Any]:
    allowed = cpulist.render(system.allowed_cpus())
    return {"online": system.text(f"{CPUS}/online") or allowed, "allowed": allowed}


def topology(system: System, online: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    info = _cpuinfo(system)
    node_of = {cpu: node["id"] for node in nodes for cpu in cpulist.parse(node["cpus"])}
    rows = [
        {"cpu": cpu, "socket": socket, "core": core_id, "node": node_of.get(cpu, 0)}
        for cpu in cpulist.parse(online)
        for socket, core_id in [_place(system, cpu, info)]
    ]
    return {
        "sockets": len({row["socket"] for row in rows}),
        "cores": len({(row["socket"], row["core"]) for row in rows}),
        "threads": len(rows),
        "model": next((block.get("model name", "") for block in info.values()), "") or platform.processor(),
        "topology": rows,
    }


def _place(system: System, cpu: int, info: dict[int, dict[str, str]]) -> tuple[int, int]:
    """Socket and core of a cpu; /proc/cpuinfo where /sys does not tell, each cpu its own core where neither does."""
    block = info.get(cpu, {})
    socket = system.text(f"{CPUS}/cpu{cpu}/topology/physical_package_id") or block.get("physical id") or "0"
    core_id = system.text(f"{CPUS}/cpu{cpu}/topology/core_id") or block.get("core id") or str(cpu)
    return max(0, int(socket)), int(core_id)


def _cpuinfo(system: System) -> dict[int, dict[str, str]]:
    blocks = {}
    for text in system.text("/proc/cpuinfo").split("\n\n"):
        pairs = (line.partition(":") for line in text.splitlines())
        block = {key.strip(): value.strip() for key, _, value in pairs}
        if block.get("processor", "").isdigit():
            blocks[int(block["processor"])] = block
    return blocks
