"""What a host is: read once, as JSON, before anything is planned on it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any, Iterable

from . import cpulist
from .system import System

Facts = dict[str, Any]
NODES = "/sys/devices/system/node"
CPUS = "/sys/devices/system/cpu"
HUGE = "/sys/kernel/mm/hugepages"
THP = "/sys/kernel/mm/transparent_hugepage"
TOOLS = ("pgbench", "psql", "fio", "numactl", "numastat", "taskset", "unshare", "systemctl", "perf")
SERVER_TOOLS = ("postgres", "initdb", "psql", "pgbench", "pg_test_fsync", "pg_test_timing", "pg_basebackup")
SYSCTLS = (
    "vm/nr_hugepages", "vm/nr_overcommit_hugepages", "vm/overcommit_memory", "vm/overcommit_ratio", "vm/swappiness",
    "vm/dirty_ratio", "vm/dirty_background_ratio", "vm/dirty_bytes", "vm/dirty_background_bytes",
    "vm/zone_reclaim_mode", "kernel/numa_balancing", "kernel/sched_autogroup_enabled", "kernel/shmmax",
    "kernel/shmall", "kernel/randomize_va_space", "net/core/somaxconn",
)  # fmt: skip


def core(system: System) -> Facts:
    """What `plan` of the settings needs: a few file reads, no process started."""
    return {
        "level": system.level(),
        "euid": system.euid(),
        "cpus": _cpus(system),
        "numa": _numa(system),
        "memory": _memory(system),
        "huge_pages": _huge_pages(system),
        "transparent_huge_pages": _thp(system),
        "tools": {tool: {"path": path} for tool in TOOLS for path in [system.which(tool)] if path},
    }


def full(system: System, pg_bin_dirs: Iterable[str] = ()) -> Facts:
    """The facts of the protocol. Tools and PostgreSQL installations are asked for their versions."""
    facts = core(system)
    facts["cpus"].update(_topology(system))
    for tool in facts["tools"].values():
        tool["version"] = _version(system, tool["path"])
    release = platform.uname()
    return {
        **facts,
        "hostname": release.node,
        "os": _os(system),
        "kernel": {"release": release.release, "version": release.version, "arch": release.machine},
        "machine_id": system.machine_id(),
        "boot_id": system.boot_id(),
        "python": platform.python_version(),
        "sysctls": {k.replace("/", "."): v for k in SYSCTLS for v in [system.text(f"/proc/sys/{k}")] if v},
        "virtualization": _virtualization(system),
        "postgresql": [_installation(system, path) for path in _bin_dirs(system, pg_bin_dirs)],
    }


def _cpus(system: System) -> Facts:
    online = system.text(f"{CPUS}/online") or cpulist.render(system.allowed_cpus())
    return {"online": online, "allowed": cpulist.render(system.allowed_cpus())}


def _topology(system: System) -> Facts:
    info = _cpuinfo(system)
    node_of = {cpu: n["id"] for n in _numa(system)["nodes"] for cpu in cpulist.parse(n["cpus"])}
    cpus = [
        {"cpu": cpu, "socket": socket, "core": core_id, "node": node_of.get(cpu, 0)}
        for cpu in cpulist.parse(_cpus(system)["online"])
        for socket, core_id in [_place(system, cpu, info)]
    ]
    return {
        "sockets": len({c["socket"] for c in cpus}),
        "cores": len({(c["socket"], c["core"]) for c in cpus}),
        "threads": len(cpus),
        "model": next((block.get("model name", "") for block in info.values()), "") or platform.processor(),
        "topology": cpus,
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


def _numa(system: System) -> Facts:
    ids = sorted(int(n[4:]) for n in system.names(NODES) if re.fullmatch(r"node\d+", n))
    if not ids:  # a kernel without NUMA is one node
        return {"nodes": [{"id": 0, **_whole(system)}], "distances": [[10]]}
    nodes = [{"id": n, "cpus": system.text(f"{NODES}/node{n}/cpulist"), "mem_kb": _node_kb(system, n)} for n in ids]
    distances = [[int(d) for d in system.text(f"{NODES}/node{n}/distance").split()] for n in ids]
    return {"nodes": nodes, "distances": distances}


def _whole(system: System) -> Facts:
    return {"cpus": _cpus(system)["online"], "mem_kb": _memory(system).get("total_kb", 0)}


def _node_kb(system: System, node: int) -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", system.text(f"{NODES}/node{node}/meminfo"))
    return int(found.group(1)) if found else 0


def meminfo(system: System) -> dict[str, int]:
    """/proc/meminfo: {"MemTotal": kB, ..., "HugePages_Total": pages, ...}."""
    pairs = (line.split() for line in system.text("/proc/meminfo").splitlines())
    return {pair[0].rstrip(":"): int(pair[1]) for pair in pairs if len(pair) > 1}


def _memory(system: System) -> Facts:
    info = meminfo(system)
    names = {"total_kb": "MemTotal", "available_kb": "MemAvailable", "free_kb": "MemFree", "swap_kb": "SwapTotal"}
    return {ours: info[theirs] for ours, theirs in names.items() if theirs in info}


def _huge_pages(system: System) -> Facts:
    sizes = []
    for name in system.names(HUGE):
        kb = int(re.sub(r"\D", "", name))
        total, free = (int(system.text(f"{HUGE}/{name}/{f}_hugepages", "0") or 0) for f in ("nr", "free"))
        sizes.append({"kb": kb, "total": total, "free": free, "per_node": _per_node(system, name)})
    return {"default_kb": meminfo(system).get("Hugepagesize", 0), "sizes": sorted(sizes, key=lambda s: int(s["kb"]))}


def _per_node(system: System, size: str) -> dict[str, int]:
    nodes = [n for n in system.names(NODES) if re.fullmatch(r"node\d+", n)]
    return {n[4:]: int(system.text(f"{NODES}/{n}/hugepages/{size}/nr_hugepages", "0") or 0) for n in nodes}


def bracketed(text: str) -> str:
    """ "always [madvise] never" -> "madvise"."""
    found = re.search(r"\[([^\]]+)\]", text)
    return found.group(1) if found else text


def _thp(system: System) -> Facts:
    """{"enabled": "madvise", "defrag": ..., "choices": {"enabled": [...], "defrag": [...]}}; {} without THP."""
    texts = {name: system.text(f"{THP}/{name}") for name in ("enabled", "defrag")}
    texts = {name: text for name, text in texts.items() if text}
    choices = {name: re.sub(r"[\[\]]", "", text).split() for name, text in texts.items()}
    return {**{name: bracketed(text) for name, text in texts.items()}, **({"choices": choices} if texts else {})}


def _os(system: System) -> Facts:
    pairs = (line.partition("=") for line in system.text("/etc/os-release").splitlines())
    release = {key: value.strip("\"'") for key, _, value in pairs}
    return {
        "id": release.get("ID", ""),
        "version": release.get("VERSION_ID", ""),
        "pretty": release.get("PRETTY_NAME", ""),
    }


def _virtualization(system: System) -> str:
    """A hint only: the hypervisor's or container's name where the kernel shows one."""
    for path in ("/sys/hypervisor/type", "/run/systemd/container", "/sys/class/dmi/id/sys_vendor"):
        text = system.text(path)
        if text:
            return text
    flags = system.text("/proc/cpuinfo").split("flags", 1)[-1].split("\n", 1)[0].split()
    return "hypervisor" if "hypervisor" in flags else ""


def _version(system: System, path: str) -> str:
    from .errors import HostFailure

    try:
        shown = system.run([path, "--version"], limit_s=5.0)
    except HostFailure:
        return ""
    found = re.search(r"\d+(\.\d+)+\w*", shown.stdout + shown.stderr)
    return found.group(0) if found else ""


def _bin_dirs(system: System, given: Iterable[str]) -> list[str]:
    roots = [f"/usr/lib/postgresql/{name}/bin" for name in system.names("/usr/lib/postgresql")]
    roots += [f"/usr/{name}/bin" for name in system.names("/usr") if name.startswith("pgsql-")]
    on_path = system.which("postgres")
    candidates = [*given, *roots, "/usr/local/pgsql/bin", *([str(Path(on_path).parent)] if on_path else [])]
    usable = (path for path in candidates if system.exists(f"{path}/postgres"))
    return list(dict.fromkeys(os.path.realpath(path) for path in usable))


def _installation(system: System, path: str) -> Facts:
    version = _version(system, f"{path}/postgres")
    tools = [tool for tool in SERVER_TOOLS if system.exists(f"{path}/{tool}")]
    return {
        "bin_dir": path,
        "version": version,
        "major": int(version.split(".")[0] or 0) if version else 0,
        "tools": tools,
    }
