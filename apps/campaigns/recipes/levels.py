"""Generate levels of factors from the facts of a host: the functions that a recipe's `generate` may name. Pure.

Each returns (label, value), or (label, {name: value}) if a level sets several paths. PlanError if the host has
nothing to compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from agents.host import cpulist
from agents.host.cgroups import BOOT_HINT
from agents.settings.cgroup import NO_LIMIT
from apps.campaigns.design import data
from apps.campaigns.recipes.scale import DATA_TO_MEMORY, cpus, free_kb, parse_cpus, rows_that_fit, spelled
from apps.hosts.facts.topology import file_system, memory_kb
from common.errors import PlanError

Facts = dict[str, Any]
Levels = Sequence[tuple[str, Any]]

KB, MB, GB = 1, 1024, 1024 * 1024
SMALLEST_BUFFERS_KB = 128  # minimum of PostgreSQL
MOST_CLIENTS = 900  # so that max_connections of 1000 suffices for all
WAL_SIZES_KB = (1 * GB, 4 * GB, 16 * GB, 64 * GB)
READ_AHEAD_KB = (0, 128, 1024, 4096)
# Share of the available memory for huge pages; the agent refuses more than nine tenths.
MOST_OF_MEMORY, MOST_OF_AVAILABLE = 7 / 8, 0.85
SERVER = {"initdb", "postgres", "pgbench"}


def shared_buffers(facts: Facts) -> Levels:
    """Return seven eighths of the memory, and all smaller powers of two down to the minimum."""
    total = memory_kb(facts)
    most = min(total * MOST_OF_MEMORY, facts["memory"].get("available_kb", total) * MOST_OF_AVAILABLE)
    unit = GB if most >= GB else MB
    top = int(most) // unit * unit
    powers = (1 << power for power in range(top.bit_length(), -1, -1))
    sizes = [top, *(kb for kb in powers if SMALLEST_BUFFERS_KB <= kb < top)]
    return [(spelled(kb), spelled(kb)) for kb in sizes]


def clients(facts: Facts) -> Levels:
    """Return 1 client, then half as many as CPUs, as many, and 2, 4 and 8 times as many."""
    count = cpus(facts)
    counts = {1, max(1, count // 2), count, *(count * times for times in (2, 4, 8))}
    numbers = sorted({min(number, MOST_CLIENTS) for number in counts})
    return [("1 client" if number == 1 else f"{number} clients", number) for number in numbers]


def wal_sizes(facts: Facts) -> Levels:
    """Return max_wal_size: PostgreSQL's default, and larger values while four times as much fits into the free
    space."""
    room = free_kb(facts)
    fitting = [kb for kb in WAL_SIZES_KB if room is None or kb * 4 <= room]
    return [(spelled(kb), spelled(kb)) for kb in fitting or WAL_SIZES_KB[:1]]


def transparent_huge_pages(facts: Facts) -> Levels:
    """Return never, always for the memory of each process, and also for shared memory if the kernel supports it."""
    choices = facts["transparent_huge_pages"].get("choices", {})
    if not {"always", "never"} <= set(choices.get("enabled", [])):
        raise PlanError("factors", "this kernel has no transparent huge pages", hint="choose another host")
    shared = {"always", "never"} <= set(choices.get("shmem_enabled", []))
    off = {"shmem_enabled": "never"} if shared else {}
    levels = [("never", {"enabled": "never", **off}), ("always", {"enabled": "always", **off})]
    both = ("always, shared memory too", {"enabled": "always", "shmem_enabled": "always"})
    return [*levels, both] if shared else levels


def huge_page_sizes(facts: Facts) -> Levels:
    """Return no huge pages, and each page size of this kernel."""
    sizes = sorted(size["kb"] for size in facts["huge_pages"]["sizes"])
    if len(sizes) < 2:
        available = f"only huge pages of {spelled(sizes[0])}" if sizes else "no huge pages"
        raise PlanError(
            "factors", f"this host has {available}", hint="use the recipe huge-pages to compare huge pages with none"
        )
    used = [(spelled(kb), {"use": "on", "pool": "auto", "size": spelled(kb)}) for kb in sizes]
    return [("none", {"use": "off"}), *used]


def schedulers(facts: Facts) -> Levels:
    """Return the I/O schedulers that the kernel offers for the disk of the cluster directory, the current one first."""
    disk = _disk(facts)
    own = disk["scheduler"]
    return [(name, name) for name in sorted(disk["schedulers"], key=lambda name: (name != own, name))]


def read_ahead(facts: Facts) -> Levels:
    """Return the current read-ahead of the device of the cluster directory, and none, little and much."""
    own = _device(facts).get("read_ahead_kb")
    sizes = [own, *(kb for kb in READ_AHEAD_KB if kb != own)] if own is not None else READ_AHEAD_KB
    return [(spelled(kb) if kb else "none", kb) for kb in sizes]


def _device(facts: Facts) -> dict[str, Any]:
    """Return the device of the cluster directory's file system, as in /sys/block. PlanError if it has none."""
    path = facts["directories"][0]
    mount = file_system(facts, path)
    for device in facts["block_devices"]:
        if mount and any(mount["mounted_on"] in part["mounted_on"] for part in (device, *device["partitions"])):
            return dict(device)
    lying = f"{mount['type']} on {mount['device']}" if mount else "an unknown file system"
    hint = "choose a host whose cluster directory is on a disk, or check it again"
    raise PlanError("factors", f"{path} is on {lying}, which has no visible block device", hint=hint)


def _disk(facts: Facts) -> dict[str, Any]:
    """Return the physical disk, which has the scheduler. A volume over several disks has none."""
    device, known = _device(facts), facts["block_devices"]
    for _ in known:
        if device["schedulers"]:
            return device
        lower = [one for one in known if any(device["name"] in part["holders"] for part in (one, *one["partitions"]))]
        if not lower:
            break
        device = lower[0]
    hint = "choose a host whose kernel schedules the requests itself"
    raise PlanError("factors", f"{device['name']} has no scheduler", hint=hint)


def postgresql_versions(facts: Facts) -> Levels:
    """Return every installed PostgreSQL of which a private cluster can be created, oldest first."""
    able = sorted(
        (installation for installation in facts["postgresql"] if set(installation["tools"]) >= SERVER),
        key=lambda e: e["major"],
    )
    if len(able) < 2:
        available = f"PostgreSQL {able[0]['version']} alone" if able else "no PostgreSQL with initdb and pgbench"
        hint = "install another version there, or name its directory in pg_bin_dirs, and check the host again"
        raise PlanError("factors", f"this host has {available}", hint=hint)
    versions = [installation["version"] for installation in able]
    return [(_version(installation, versions), installation["bin_dir"]) for installation in able]


def _version(one: dict[str, Any], versions: list[str]) -> str:
    """Return the version, with its directory if another installation has the same version."""
    name = f"PostgreSQL {one['version']}"
    return f"{name} in {one['bin_dir']}" if versions.count(one["version"]) > 1 else name


def active_sets(facts: Facts) -> list[tuple[str, int]]:
    """Return numbers of rows by the share of the host's memory that they use; the last one is the whole table."""
    rows = rows_that_fit(facts)
    return [(f"{share * 100:.0f} % of memory", int(share * rows)) for share in (0.1, 0.5, 2.0, DATA_TO_MEMORY)]


def warehouses(facts: Facts) -> list[tuple[str, int]]:
    """Return the TPC-C warehouses that use a quarter of the host's memory, and four times the memory."""
    fitting = memory_kb(facts) * 1024 / data.bytes_per_warehouse()
    few = max(1, int(fitting / 4))
    many = max(few + 1, math.ceil(DATA_TO_MEMORY * fitting))
    return [(f"{_warehouses(count)}, {share} of memory", count) for count, share in ((few, "25 %"), (many, "400 %"))]


def _warehouses(count: int) -> str:
    return "1 warehouse" if count == 1 else f"{count} warehouses"


def directories(facts: Facts) -> list[tuple[str, str]]:
    """Return the host's cluster directory and the other allowed ones, each labelled with its file system."""
    return [(_lying(facts, path), path) for path in facts["directories"]]


def _lying(facts: Facts, path: str) -> str:
    mount = file_system(facts, path)
    return f"{path} ({mount['type']} on {mount['device']})" if mount else path


def numa_policies(facts: Facts) -> list[tuple[str, dict[str, str]]]:
    """Return each NUMA policy, membind to each node with memory, and the CPUs of one node against those of all."""
    nodes = facts["numa"]["nodes"]
    if len(nodes) < 2:
        raise PlanError(
            "factors",
            "this host has one NUMA node, so all policies place memory alike",
            hint="choose a host with two or more nodes",
        )
    with_memory = [str(node["id"]) for node in nodes if node["mem_kb"]]
    with_cpus = [str(node["id"]) for node in nodes if node["cpus"]]
    return [
        ("default", {"policy": "default"}),
        ("interleave", {"policy": "interleave", "nodes": ",".join(with_memory)}),
        ("localalloc", {"policy": "localalloc"}),
        *((f"membind {node}", {"policy": "membind", "nodes": node}) for node in with_memory),
        *((f"cpus of node {node}", {"policy": "default", "cpunodebind": node}) for node in with_cpus[:1]),
    ]


def memory_limits(facts: Facts) -> list[tuple[str, str]]:
    """All memory of the host, and half of it, as limits of a control group."""
    _check_controller(facts, "memory")
    kb = memory_kb(facts) // 2
    unit = GB if kb >= 8 * GB else MB
    half = spelled(kb // unit * unit)
    return [("all memory", NO_LIMIT), (f"half: {half}", half)]


def cpu_limits(facts: Facts) -> list[tuple[str, str]]:
    """The CPU time of the whole host, and half of it, as limits of a control group."""
    _check_controller(facts, "cpu")
    half = f"{cpus(facts) / 2:g}"
    return [("all cpus", NO_LIMIT), (f"half: {_cpus(half)}", half)]


def _check_controller(facts: Facts, controller: str) -> None:
    about = facts.get("cgroup") or {"controllers": [], "legacy": [], "problem": ""}
    if controller in about["controllers"]:
        return
    if controller in about["legacy"]:
        hint = f"its {controller} controller is in version 1; {BOOT_HINT}"
    else:
        hint = about["problem"] or "check the host again, or choose a host with systemd and Linux 5 or later"
    problem = f"this host has no {controller} controller of control groups version 2 that a run can use"
    raise PlanError("factors", problem, hint=hint)


def cpu_doubling(facts: Facts) -> list[tuple[str, str]]:
    """Return 1, 2, 4 ... CPUs and all of them. Each core is used once before SMT siblings."""
    ordered = _by_core(facts)
    counts = [1 << i for i in range(len(ordered).bit_length()) if 1 << i <= len(ordered)]
    if counts[-1] != len(ordered):
        counts.append(len(ordered))
    return [(_cpus(count), ",".join(map(str, sorted(ordered[:count])))) for count in counts]


def server_cpus(facts: Facts) -> list[tuple[str, str]]:
    """Return one CPU, and another core if there are CPUs left for a tracer."""
    return [(f"cpu {cpu}", str(cpu)) for cpu in _servers(facts)]


def isolated_cpus(facts: Facts) -> list[tuple[str, dict[str, Any]]]:
    """Return PostgreSQL on one CPU by affinity only, and with all threads of its core isolated; the load generator
    elsewhere. Both boot the host."""
    *_, cpu = _first_threads(facts)
    core = _siblings(facts, cpu)
    others = cpulist.render(set(parse_cpus(facts["cpus"]["allowed"])) - core)
    if not others or 0 in core:
        hint = "choose a host with two cores or more"
        raise PlanError("factors", "this host has no second core that could be isolated", hint=hint)
    isolated = cpulist.render(core)
    pinned = {"settings.cpu_affinity.server": str(cpu), "settings.cpu_affinity.client": others}
    parameters = dict.fromkeys(("isolcpus", "nohz_full", "rcu_nocbs"), isolated)
    return [(f"cpu {cpu}", {"skew_tick": 0, **pinned}), (f"cpu {cpu}, isolated", {**parameters, **pinned})]


def _first_threads(facts: Facts) -> list[int]:
    return [cpu for cpu in _by_core(facts) if cpu == min(_siblings(facts, cpu))]


def _siblings(facts: Facts, cpu: int) -> set[int]:
    rows = {row["cpu"]: row for row in facts["cpus"].get("topology", [])}
    return set(parse_cpus(rows.get(cpu, {}).get("siblings", str(cpu))))


def tracer_cpus(facts: Facts) -> list[tuple[str, dict[str, Any]]]:
    """Return no tracer, one on PostgreSQL's CPU, and on another core and another socket that PostgreSQL does not
    use."""
    ordered, topology = _by_core(facts), {row["cpu"]: row for row in facts["cpus"].get("topology", [])}
    servers = _servers(facts)
    free = [cpu for cpu in ordered if cpu not in servers]
    here = topology.get(servers[0], {}).get("socket")
    near = next((cpu for cpu in free if topology.get(cpu, {}).get("socket") == here), None)
    far = next((cpu for cpu in free if topology.get(cpu, {}).get("socket") != here), None)
    named = {"the same cpu": "server", "another cpu": near, "another socket": far}
    placed = [(f"tracer on {name}", _traced(str(cpu))) for name, cpu in named.items() if cpu is not None]
    return [("no tracer", {"tool": "none"}), *placed]


def _traced(cpus: str) -> dict[str, Any]:
    return {"tool": "strace", "settings.cpu_affinity.tracer": cpus}


def _servers(facts: Facts) -> list[int]:
    ordered = _by_core(facts)
    return ordered[:2] if len(ordered) > 2 else ordered[:1]


def _by_core(facts: Facts) -> list[int]:
    return sorted(parse_cpus(facts["cpus"]["allowed"]), key=_place(facts))


def _cpus(count: int | str) -> str:
    return "1 cpu" if str(count) == "1" else f"{count} cpus"


def _place(facts: Facts) -> Any:
    """Return the sort key of a CPU: first thread of each core first, node by node."""
    threads: dict[tuple[int, int], int] = {}
    place: dict[int, tuple[int, int, int]] = {}
    for row in facts["cpus"].get("topology", []):
        core = (row["socket"], row["core"])
        threads[core] = thread = threads.get(core, -1) + 1
        place[row["cpu"]] = (thread, row.get("node") or 0, row["cpu"])
    return lambda cpu: place.get(cpu, (0, 0, cpu))


GENERATORS: dict[str, Callable[[Facts], Levels]] = {
    "active_sets": active_sets,
    "clients": clients,
    "cpu_doubling": cpu_doubling,
    "cpu_limits": cpu_limits,
    "directories": directories,
    "huge_page_sizes": huge_page_sizes,
    "isolated_cpus": isolated_cpus,
    "memory_limits": memory_limits,
    "numa_policies": numa_policies,
    "postgresql_versions": postgresql_versions,
    "read_ahead": read_ahead,
    "schedulers": schedulers,
    "server_cpus": server_cpus,
    "shared_buffers": shared_buffers,
    "tracer_cpus": tracer_cpus,
    "transparent_huge_pages": transparent_huge_pages,
    "wal_sizes": wal_sizes,
    "warehouses": warehouses,
}
