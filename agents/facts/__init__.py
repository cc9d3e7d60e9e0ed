"""The facts of a host, as JSON. They are read before planning, and again before each run.

A fact that the kernel does not provide is left out, or "" or [] if the field is always present. kB are 1024 bytes.
[v] marks facts that change by themselves, without a new version of the facts: see apps/hosts/facts/changes.py.

    level            "root" or "user"; euid: number
    cpus             online, allowed (with the isolated ones): cpulists; sockets, cores, threads: counts; model; smt,
                     isolated, nohz_full: texts
      .topology      [{"cpu", "socket", "core", "node", "siblings": cpulist of the threads of its core}]
      .caches        full only: [{"level", "type": "Data" | "Instruction" | "Unified", "kb", "shared": [cpulist each]}]
      .frequency     {"boost": bool, "pstate", "policies": [{"cpus", "driver", "governor", "governors", "preference",
                     "min_khz", "max_khz" (asked), "lowest_khz", "highest_khz", "base_khz" (of the hardware)}]}
      .idle          {"driver", "governor", "states": [{"name", "latency_us", "residency_us", "disabled"}] of the first
                     cpu, "dma_latency": whether /dev/cpu_dma_latency is there}
    numa             nodes: [{"id", "cpus", "mem_kb", "free_kb" [v]}]; distances: [[of a node to each]] as in SLIT
    memory           total_kb, swap_kb, available_kb [v], free_kb [v]
    huge_pages       default_kb; sizes: [{"kb", "total", "free" [v], "surplus" [v], "reserved" [v], "overcommit",
                     "per_node" (total), "free_per_node" [v], "surplus_per_node" [v]: {node: pages}}]
    transparent_huge_pages  enabled, defrag, shmem_enabled: what is chosen; choices: {file: [text]};
                     khugepaged: {knob: number}
    kernel           release, version, arch, cmdline, clocksource, mitigations: {name: text}, sched: {name: text}
    boot             kexec: path of the program; image, initrd: of the running kernel; problem: why the host cannot boot
                     it with another command line; each "" for none
      .grub          directory, uuid of its file system; image, initrd: paths there; problem: the same for GRUB
      .systemd_boot  directory of its partition; image, initrd: paths there; problem: the same for systemd-boot
      .kernels       [{"release", "image", "initrd", "grub": {"image", "initrd"}, "systemd_boot": the same}]
    sysctls          {"vm.swappiness": "60", ...}: see SYSCTLS in kernel.py
    block_devices    [{"name", "kb", "model", "scheduler", "schedulers", "read_ahead_kb", "nr_requests", "rq_affinity",
                     "rotational", "queue_depth" (SCSI), "write_cache", "logical_block_bytes", "physical_block_bytes",
                     "node", "holders", "mounted_on", "partitions": [{"name", "kb", "holders", "mounted_on"}]}]
    cgroup           version: "2", "hybrid", "1" or "none"; controllers: of version 2 that a run can use; legacy: those
                     of version 1; mount; manager: "systemd" or ""; problem: why a run can use none, or ""
    tools            {name: {"path", "version" (full only)}}
    policy           only if an admin of the host has restricted the agent: see policy.py

Only in `full`:

    hostname, machine_id, boot_id [v], python
    postgresql       [{"bin_dir", "version", "major", "tools": [name]}]
    os               id, version, pretty, tuned_profile
    virtualization   such as "docker in qemu", or ""
    firmware         sys_vendor, product_name, board_name, bios_vendor, bios_version, bios_date, microcode
    file_systems     [{"mounted_on", "device", "type", "options": [text], "kb", "free_kb" [v]}]
    network          [{"name", "state", "mtu", "speed_mbit", "driver", "node"}]
    limits           of our control groups: cpu_quota (cpus), memory_max_kb, memory_high_kb, pids_max,
                     cpuset_cpus, cpuset_mems; only those that bind
    clusters         [{"name", "version", "major", "data_dir", "port", "running", "pid" [v], "owner", "config_file",
                     "unit": that it runs in, or would, "bin_dir", "has_include_dir": "" or the directory that its
                     configuration includes, "include": "" or the file there that a run may write,
                     "found_by": any of process, debian, systemd, directory, given}]
    unread           {section: problem}, only if one of the sections from `os` on could not be parsed
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any, Callable, Iterable, Optional

from ..host import cgroups, policy
from ..host.system import System
from .boot import boot
from .cpu import caches, cpus
from .kernel import distribution, firmware, kernel, sysctls, virtualization
from .memory import THP, huge_pages, meminfo, memory, numa, transparent_huge_pages
from .read import bracketed
from .storage import block_devices, file_systems
from .tools import Versions, tools

__all__ = ["THP", "Facts", "bracketed", "core", "full", "meminfo"]

Facts = dict[str, Any]


def core(system: System) -> Facts:
    """Read the facts that `plan` of the settings needs: a few ms of file reads, without starting processes."""
    nodes = numa(system)
    return {
        "level": system.level(),
        "euid": system.euid(),
        "cpus": cpus(system, nodes["nodes"]),
        "numa": nodes,
        "memory": memory(system),
        "huge_pages": huge_pages(system),
        "transparent_huge_pages": transparent_huge_pages(system),
        "kernel": kernel(system),
        "boot": boot(system),
        "sysctls": sysctls(system),
        "block_devices": block_devices(system),
        "cgroup": cgroups.fact(system),
        "tools": tools(system),
        **_narrowed(system),
    }


def _narrowed(system: System) -> Facts:
    narrowed = policy.read(system)
    return {"policy": narrowed} if narrowed else {}


def full(
    system: System,
    pg_bin_dirs: Iterable[str] = (),
    pg_data_dirs: Iterable[str] = (),
    versions_cache: Optional[Path] = None,
) -> Facts:
    """The facts of the protocol. Programs are asked for their versions when `versions_cache` does not know them."""
    from .postgresql import installations  # a run needs only the core facts, and compiles its imports

    facts, versions = core(system), Versions(system, versions_cache)
    facts["cpus"]["caches"] = caches(system)
    for tool in facts["tools"].values():
        tool["version"] = versions.of(tool["path"])
    installed = installations(system, versions, pg_bin_dirs)
    versions.keep()
    facts.update(
        hostname=system.text("/proc/sys/kernel/hostname"),
        machine_id=system.machine_id(),
        boot_id=system.boot_id(),
        python=platform.python_version(),
        postgresql=installed,
    )
    return {**facts, **_each(system, installed, pg_data_dirs)}


def _each(system: System, installed: list[dict[str, Any]], pg_data_dirs: Iterable[str]) -> Facts:
    """Facts that no plan depends on: if one cannot be parsed, the others are reported all the same."""
    from .clusters import clusters
    from .limits import limits
    from .network import network

    readers: dict[str, Callable[[], Any]] = {
        "os": lambda: distribution(system),
        "firmware": lambda: firmware(system),
        "virtualization": lambda: virtualization(system),
        "file_systems": lambda: file_systems(system),
        "network": lambda: network(system),
        "limits": lambda: limits(system),
        "clusters": lambda: clusters(system, installed, pg_data_dirs),
    }
    facts: Facts = {}
    unread = {}
    for name, read in readers.items():
        try:
            facts[name] = read()
        except (ValueError, LookupError) as problem:
            unread[name] = f"{type(problem).__name__}: {problem}"
    return {**facts, **({"unread": unread} if unread else {})}
