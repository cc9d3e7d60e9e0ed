"""Facts as a picture: sockets with their nodes, cores and threads. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Facts = dict[str, Any]
MOST_CORES = 512


@dataclass(frozen=True)
class Thread:
    cpu: int
    allowed: bool


@dataclass(frozen=True)
class Node:
    number: int
    memory_kb: int | None
    cores: list[list[Thread]]


@dataclass(frozen=True)
class Socket:
    number: int
    nodes: list[Node]


def sockets(facts: Facts) -> list[Socket]:
    """Sockets -> nodes -> cores -> threads, as the facts list them; [] where the topology is unknown."""
    cpus = facts.get("cpus", {})
    rows = cpus.get("topology", [])[:MOST_CORES]
    memory = {node["id"]: node.get("mem_kb") for node in facts.get("numa", {}).get("nodes", [])}
    allowed = _parse(cpus.get("allowed", ""))
    places: dict[int, dict[int, dict[int, list[Thread]]]] = {}
    for row in rows:
        node = places.setdefault(row["socket"], {}).setdefault(row.get("node") or 0, {})
        node.setdefault(row["core"], []).append(Thread(row["cpu"], row["cpu"] in allowed))
    return [
        Socket(
            number, [Node(n, memory.get(n), [cores[c] for c in sorted(cores)]) for n, cores in sorted(nodes.items())]
        )
        for number, nodes in sorted(places.items())
    ]


def line(facts: Facts) -> str:
    """ "2 sockets, 8 cores, 16 threads, 2 nodes" """
    cpus = facts.get("cpus", {})
    if "threads" not in cpus:
        return ""
    nodes = len(facts.get("numa", {}).get("nodes", [])) or 1
    counts = [(cpus["sockets"], "socket"), (cpus["cores"], "core"), (cpus["threads"], "thread"), (nodes, "node")]
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)


def _parse(cpulist: str) -> set[int]:
    cpus: set[int] = set()
    for part in filter(None, cpulist.split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
