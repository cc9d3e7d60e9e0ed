"""What a host is: read once, as JSON, before anything is planned on it."""

from __future__ import annotations

import platform
from typing import Any, Iterable

from ..system import System
from .cpu import cpus, topology
from .kernel import distribution, kernel, sysctls, virtualization
from .memory import THP, bracketed, huge_pages, meminfo, memory, numa, transparent_huge_pages
from .postgresql import installations
from .tools import tools, version

__all__ = ["THP", "Facts", "bracketed", "core", "full", "meminfo"]

Facts = dict[str, Any]


def core(system: System) -> Facts:
    """What `plan` of the settings needs: a few file reads, no process started."""
    processors = cpus(system)
    return {
        "level": system.level(),
        "euid": system.euid(),
        "cpus": processors,
        "numa": numa(system, processors["online"]),
        "memory": memory(system),
        "huge_pages": huge_pages(system),
        "transparent_huge_pages": transparent_huge_pages(system),
        "tools": tools(system),
    }


def full(system: System, pg_bin_dirs: Iterable[str] = ()) -> Facts:
    """The facts of the protocol. Tools and PostgreSQL installations are asked for their versions."""
    facts = core(system)
    facts["cpus"].update(topology(system, facts["cpus"]["online"], facts["numa"]["nodes"]))
    for tool in facts["tools"].values():
        tool["version"] = version(system, tool["path"])
    return {
        **facts,
        "hostname": platform.node(),
        "os": distribution(system),
        "kernel": kernel(system),
        "machine_id": system.machine_id(),
        "boot_id": system.boot_id(),
        "python": platform.python_version(),
        "sysctls": sysctls(system),
        "virtualization": virtualization(system),
        "postgresql": installations(system, pg_bin_dirs),
    }
