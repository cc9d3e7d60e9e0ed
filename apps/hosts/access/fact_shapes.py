"""Type and size of every fact of a host, as described in agents/facts. Pure.

Pages, recipes and planning read facts without further checks. The agent of this version reports them, because the
server sends it. Facts that have no shape are stored, and nothing reads them."""

from __future__ import annotations

from itertools import chain
from typing import Any

from agents.host import cpulist
from apps.hosts.access.shapes import (
    MAX_TEXT,
    MAX_VALUES,
    Shape,
    many,
    maybe,
    number,
    record,
    table,
    text,
    truth,
    whole,
    word,
)

MOST_KB = 1 << 50  # an exbibyte
COUNT, KB = whole(0, 1 << 50), whole(0, MOST_KB)
NAME, LINE = text(300), text(4096)
NAMES = many(LINE, 1000)
LINES = table(LINE, 5000)
# With containers, a device may have thousands of bind mounts.
PLACES = many(LINE, 100_000)
PER_NODE = table(COUNT, 4096)
# CPUs in the lists of one kind together. On a machine with 1,024 CPUs, all may be listed as siblings of each.
MOST_LISTED = 1 << 20


def cpus(value: Any) -> str:
    """What is wrong with a list of CPUs, which has no more CPUs than any machine: each one becomes an object here."""
    try:
        cpulist.count(value)
    except (ValueError, AttributeError):
        return f"{value!r:.80} is not a list of CPUs"
    return ""


def some(shape: Shape) -> Shape:
    """Return a shape that does not accept an empty text or list."""
    return lambda value: shape(value) or ("" if value else "is empty")


def _with_lists(name: str, rows: Shape) -> Shape:
    """Return a shape of rows whose lists of CPUs in the field `name` have at most MOST_LISTED CPUs together: pages and
    plans parse each list."""

    def problem_of(value: Any) -> str:
        if wrong := rows(value):
            return wrong
        lists = (row[name] if isinstance(row[name], list) else [row[name]] for row in value)
        listed = sum(map(cpulist.count, chain.from_iterable(lists)))
        return "" if listed <= MOST_LISTED else f"{name}: {listed:,} CPUs in lists, at most {MOST_LISTED:,}"

    return problem_of


def _rows(most: int, needed: dict[str, Shape], known: dict[str, Shape] | None = None) -> Shape:
    return many(record(needed, known), most)


_PLACE = {
    "cpu": whole(0, 1 << 20),
    "socket": whole(0, 1 << 32),
    "core": whole(-1, 1 << 32),
    "node": whole(0, 1 << 20),
    "siblings": some(cpus),
}
_CACHE = {"level": whole(0, 100), "type": NAME, "kb": KB, "shared": some(many(some(cpus), 65_536))}
_CACHES = _with_lists("shared", _rows(10_000, _CACHE))
_KHZ = dict.fromkeys(("min_khz", "max_khz", "lowest_khz", "highest_khz", "base_khz"), COUNT)
_POLICY = {**dict.fromkeys(("driver", "governor", "preference"), NAME), **_KHZ}
_POLICIES = _with_lists("cpus", _rows(65_536, {"cpus": cpus, "governors": NAMES}, _POLICY))
_FREQUENCY = record({"policies": _POLICIES}, {"boost": truth, "pstate": NAME})
_STATE = {"latency_us": COUNT, "residency_us": COUNT}
_IDLE = record(
    {"states": _rows(100, {"name": NAME, "disabled": truth}, _STATE), "dma_latency": truth},
    {"driver": NAME, "governor": NAME},
)
_CPUS = record(
    {
        "online": some(cpus),
        "allowed": some(cpus),
        **dict.fromkeys(("sockets", "cores", "threads"), COUNT),
        "model": LINE,
        "topology": _with_lists("siblings", _rows(65_536, _PLACE)),
        "frequency": _FREQUENCY,
        "idle": _IDLE,
    },
    {**dict.fromkeys(("isolated", "nohz_full"), cpus), "smt": NAME, "caches": _CACHES},
)
_FREE = {"free_kb": KB}
_NUMA = record(
    {
        "nodes": _with_lists("cpus", _rows(4096, {"id": whole(0, 1 << 20), "cpus": cpus, "mem_kb": KB}, _FREE)),
        "distances": many(many(whole(0, 10_000), 4096), 4096),
    },
    {"weights": PER_NODE, "weights_auto": LINE},
)
_MEMORY = record({"total_kb": KB}, dict.fromkeys(("available_kb", "free_kb", "swap_kb"), KB))
_POOL = {
    "kb": whole(1, MOST_KB),
    **dict.fromkeys(("total", "free", "overcommit"), COUNT),
    **dict.fromkeys(("surplus", "reserved"), maybe(COUNT)),  # Linux may count below 0: 2^64 - 1, which is not stored
    **dict.fromkeys(("per_node", "free_per_node"), PER_NODE),
    "surplus_per_node": table(maybe(COUNT), 4096),
}
_THP = record(
    {},
    {
        **dict.fromkeys(("enabled", "defrag", "shmem_enabled"), NAME),
        "choices": table(NAMES, 100),
        "khugepaged": table(COUNT, 100),
    },
)
_KERNEL = record(
    {**dict.fromkeys(("release", "version", "arch"), LINE), "cmdline": text(MAX_TEXT), "mitigations": LINES},
    {"clocksource": NAME, "sched": LINES},
)
_FILES = dict.fromkeys(("image", "initrd"), LINE)
_KERNELS = _rows(1000, {"release": LINE, **_FILES, "grub": record(_FILES)}, {"systemd_boot": record(_FILES)})
_GRUB = record(dict.fromkeys(("directory", "uuid", "image", "initrd", "problem"), LINE))
_SYSTEMD_BOOT = record(dict.fromkeys(("directory", "image", "initrd", "problem"), LINE))
_VOLUME = {"name": NAME, "kb": KB, "holders": PLACES, "mounted_on": PLACES}
_DEVICE = _rows(
    10_000,
    {**_VOLUME, "scheduler": LINE, "schedulers": NAMES, "partitions": _rows(1000, _VOLUME)},
    {
        **dict.fromkeys(("model", "write_cache"), LINE),
        **dict.fromkeys(("read_ahead_kb", "nr_requests", "rq_affinity", "queue_depth", "node"), COUNT),
        **dict.fromkeys(("logical_block_bytes", "physical_block_bytes"), COUNT),
        "rotational": truth,
    },
)
_CGROUP = record(
    {**dict.fromkeys(("version", "mount", "manager", "problem"), LINE), "controllers": NAMES, "legacy": NAMES}
)
_LIMITS = record(
    {},
    {
        "cpu_quota": number(0, 1e9),
        **dict.fromkeys(("memory_max_kb", "memory_high_kb", "pids_max"), COUNT),
        **dict.fromkeys(("cpuset_cpus", "cpuset_mems"), cpus),
    },
)
_INSTALLATION = record({"bin_dir": LINE, "version": NAME, "major": whole(0, 1000), "tools": NAMES})
_MOUNT = record(
    {"mounted_on": LINE, "device": text(), "type": NAME, "options": many(text(), 1000)}, {"kb": KB, "free_kb": KB}
)
_INTERFACE = {"mtu": COUNT, "speed_mbit": COUNT, "driver": NAME, "node": COUNT}
_CLUSTER = record(
    {
        **dict.fromkeys(("name", "version", "data_dir", "owner", "config_file", "unit", "bin_dir"), LINE),
        **dict.fromkeys(("has_include_dir", "include"), LINE),
        "major": whole(0, 1000),
        "port": whole(0, 65_535),
        "running": truth,
        "pid": maybe(COUNT),
        "found_by": NAMES,
    }
)
_OBJECTS = many(record({}), MAX_VALUES)
# Lists that other accounts of the host can lengthen, and the rows of which they can malform: they can start what looks
# like a cluster, mount file systems with FUSE, and may own a configured directory of programs. So rows that break the
# rules and rows beyond the limit are left out, and the other facts count.
OPEN_LISTS: dict[str, tuple[Shape, int]] = {
    "clusters": (_CLUSTER, 1000),
    "file_systems": (_MOUNT, 5000),
    "postgresql": (_INSTALLATION, 1000),
}
# Sections without which the agent reports the others, if it cannot read them.
_OPTIONAL: dict[str, Shape] = {
    **dict.fromkeys(("os", "firmware"), LINES),
    "virtualization": LINE,
    "file_systems": _OBJECTS,
    "network": _rows(10_000, {"name": NAME, "state": NAME}, _INTERFACE),
    "limits": _LIMITS,
    "clusters": _OBJECTS,
    "unread": table(text(), 100),
    "policy": record({}, {**dict.fromkeys(("forbid", "os_users", "directories"), NAMES), "spool": LINE}),
}
FACTS: Shape = record(
    {
        "level": word("root", "user"),
        "euid": COUNT,
        "cpus": _CPUS,
        "numa": _NUMA,
        "memory": _MEMORY,
        "huge_pages": record({"default_kb": KB, "sizes": _rows(100, _POOL)}),
        "transparent_huge_pages": _THP,
        "kernel": _KERNEL,
        "boot": record(
            dict.fromkeys(("kexec", "image", "initrd", "problem"), LINE),
            {"grub": _GRUB, "systemd_boot": _SYSTEMD_BOOT, "kernels": _KERNELS},
        ),
        "sysctls": LINES,
        "block_devices": _DEVICE,
        "cgroup": _CGROUP,
        "tools": table(record({"path": LINE, "version": NAME}, {"options": NAMES}), 1000),
        **dict.fromkeys(("hostname", "machine_id", "boot_id", "python"), LINE),
        "postgresql": _OBJECTS,
    },
    _OPTIONAL,
)
