"""The topology of a host for its page: sockets with their nodes, caches, cores and threads. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Facts = dict[str, Any]
MOST_THREADS = 1024
KINDS = {"Data": "data", "Instruction": "instructions", "Unified": ""}


@dataclass(frozen=True)
class Thread:
    cpu: int
    allowed: bool


@dataclass(frozen=True)
class Cache:
    """One row per level and type: `count` caches of `kb` each. `shared`: the CPUs that share the first one."""

    level: int
    name: str
    kb: int
    count: int
    shared: list[str]
    threads: int


@dataclass(frozen=True)
class CacheDomain:
    """Cores that share their last-level cache. `kb` is None if the caches are unknown."""

    level: int | None
    kb: int | None
    cores: list[list[Thread]]


@dataclass(frozen=True)
class Pool:
    """Huge pages of one size on one node."""

    kb: int
    total: int
    free: int


@dataclass(frozen=True)
class Node:
    """A NUMA node, or the part of it in one socket. `sockets`: all sockets that it spans."""

    number: int
    memory_kb: int | None
    free_kb: int | None
    pools: list[Pool]
    domains: list[CacheDomain]
    sockets: list[int]


@dataclass(frozen=True)
class Socket:
    number: int
    nodes: list[Node]


def sockets(facts: Facts) -> list[Socket]:
    """Return sockets -> nodes -> cores -> threads, in the order of the facts; [] if the topology is unknown."""
    rows = facts.get("cpus", {}).get("topology", [])[:MOST_THREADS]
    places: dict[int, dict[int, list[dict[str, Any]]]] = {}
    for row in rows:
        places.setdefault(row["socket"], {}).setdefault(row.get("node") or 0, []).append(row)
    return [
        Socket(number, [_node(facts, node, members, places) for node, members in sorted(nodes.items())])
        for number, nodes in sorted(places.items())
    ]


def nodes_without_cpus(facts: Facts) -> list[Node]:
    """Return the nodes that only have memory, such as CXL or persistent memory, and belong to no socket."""
    numbers = [node["id"] for node in facts.get("numa", {}).get("nodes", []) if not node["cpus"]]
    return [_node(facts, number, [], {}) for number in numbers]


def _node(facts: Facts, number: int, rows: list[dict[str, Any]], places: dict[int, Any]) -> Node:
    node = {node["id"]: node for node in facts.get("numa", {}).get("nodes", [])}.get(number, {})
    over = sorted(socket for socket, nodes in places.items() if number in nodes)
    return Node(number, node.get("mem_kb"), node.get("free_kb"), _pools(facts, number), _domains(facts, rows), over)


def _pools(facts: Facts, node: int) -> list[Pool]:
    sizes = facts.get("huge_pages", {}).get("sizes", [])
    counts = [(size["kb"], size.get("per_node", {}), size.get("free_per_node", {})) for size in sizes]
    return [Pool(kb, totals.get(str(node), 0), free.get(str(node), 0)) for kb, totals, free in counts]


def _domains(facts: Facts, rows: list[dict[str, Any]]) -> list[CacheDomain]:
    last = max(facts.get("cpus", {}).get("caches", []), key=lambda cache: int(cache["level"]), default=None)
    cpus_of = {cpu: shared for shared in (last["shared"] if last else []) for cpu in parse(shared)}
    allowed = parse(facts["cpus"].get("allowed", ""))
    grouped: dict[str, dict[Any, list[Thread]]] = {}
    for row in rows:
        cores = grouped.setdefault(cpus_of.get(row["cpu"], ""), {})
        cores.setdefault(row.get("siblings") or row["core"], []).append(Thread(row["cpu"], row["cpu"] in allowed))
    level, kb = (last["level"], last["kb"]) if last else (None, None)
    return [CacheDomain(level, kb, list(cores.values())) for cores in grouped.values()]


def caches(facts: Facts) -> list[Cache]:
    """Return the caches, from the core outwards."""
    rows = facts.get("cpus", {}).get("caches", [])
    return [
        Cache(
            row["level"],
            " ".join(filter(None, (f"L{row['level']}", KINDS.get(row["type"], row["type"])))),
            row["kb"],
            len(row["shared"]),
            row["shared"],
            len(parse(row["shared"][0])),
        )
        for row in rows
    ]


def distances(facts: Facts) -> list[tuple[int, list[int]]]:
    """Return (node, its distance to each node); [] for a single node."""
    numa = facts.get("numa", {})
    nodes = [node["id"] for node in numa.get("nodes", [])]
    return list(zip(nodes, numa.get("distances", []), strict=False)) if len(nodes) > 1 else []


def line(facts: Facts) -> str:
    """Return a summary: "2 sockets, 8 cores, 16 threads, 2 nodes"."""
    cpus = facts.get("cpus", {})
    if "threads" not in cpus:
        return ""
    nodes = len(facts.get("numa", {}).get("nodes", [])) or 1
    counts = [(cpus["sockets"], "socket"), (cpus["cores"], "core"), (cpus["threads"], "thread"), (nodes, "node")]
    without = len(nodes_without_cpus(facts))
    text = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return f"{text} ({without} without CPUs)" if without else text


def numbering(facts: Facts) -> str:
    """Return a sentence on how CPU numbers are distributed over sockets; "" with one socket or unknown topology."""
    rows = facts.get("cpus", {}).get("topology", [])
    order = [row["socket"] for row in sorted(rows, key=lambda row: int(row["cpu"]))]
    sockets, moves = len(set(order)), sum(one != other for one, other in pairwise(order))
    if sockets < 2:
        return ""
    if moves == sockets - 1:
        return "CPUs are numbered socket by socket."
    if moves == len(order) - 1:
        return "CPUs are numbered across sockets: neighbours by number are on different sockets."
    return "CPUs are numbered socket by socket, first one thread of each core, then the others."


def parse(cpulist: str) -> set[int]:
    """Parse a list of CPUs: "0-3,8" -> {0, 1, 2, 3, 8}."""
    cpus: set[int] = set()
    for part in filter(None, cpulist.split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def file_system(facts: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Return the mounted file system that contains a path; None if the facts lack it."""
    mounts = [mount for mount in facts.get("file_systems", []) if f"{path}/".startswith(_inside(mount["mounted_on"]))]
    return max(mounts, key=lambda each: len(each["mounted_on"]), default=None)


def free_kb(facts: Mapping[str, Any], path: str) -> int | None:
    """Return the free kB on the file system of a path; None if the facts do not include them."""
    return (file_system(facts, path) or {}).get("free_kb")


def memory_kb(facts: Mapping[str, Any]) -> int:
    """Return the memory of the host, or the limit of the agent's control group if that is lower."""
    total: int = facts["memory"]["total_kb"]
    return int(min((facts.get("limits") or {}).get("memory_max_kb", total), total))


def _inside(mounted_on: str) -> str:
    return f"{mounted_on.rstrip('/')}/"
