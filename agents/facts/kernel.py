"""The kernel and the distribution around it."""

from __future__ import annotations

import platform
from typing import Any

from ..system import System

SYSCTLS = (
    "vm/nr_hugepages", "vm/nr_overcommit_hugepages", "vm/overcommit_memory", "vm/overcommit_ratio", "vm/swappiness",
    "vm/dirty_ratio", "vm/dirty_background_ratio", "vm/dirty_bytes", "vm/dirty_background_bytes",
    "vm/zone_reclaim_mode", "kernel/numa_balancing", "kernel/sched_autogroup_enabled", "kernel/shmmax",
    "kernel/shmall", "kernel/randomize_va_space", "net/core/somaxconn",
)  # fmt: skip


def kernel(system: System) -> dict[str, Any]:
    uname = platform.uname()
    return {"release": uname.release, "version": uname.version, "arch": uname.machine}


def sysctls(system: System) -> dict[str, str]:
    return {k.replace("/", "."): v for k in SYSCTLS for v in [system.text(f"/proc/sys/{k}")] if v}


def distribution(system: System) -> dict[str, str]:
    pairs = (line.partition("=") for line in system.text("/etc/os-release").splitlines())
    release = {key: value.strip("\"'") for key, _, value in pairs}
    return {
        "id": release.get("ID", ""),
        "version": release.get("VERSION_ID", ""),
        "pretty": release.get("PRETTY_NAME", ""),
    }


def virtualization(system: System) -> str:
    """A hint only: the hypervisor's or container's name where the kernel shows one."""
    for path in ("/sys/hypervisor/type", "/run/systemd/container", "/sys/class/dmi/id/sys_vendor"):
        text = system.text(path)
        if text:
            return text
    flags = system.text("/proc/cpuinfo").split("flags", 1)[-1].split("\n", 1)[0].split()
    return "hypervisor" if "hypervisor" in flags else ""
