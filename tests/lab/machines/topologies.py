"""The machines of the lab: CPUs and memory of each NUMA node, and the distances between nodes."""

from __future__ import annotations

from dataclasses import dataclass

from tests.lab.machines.loaders import LOADERS

LOCAL = 10  # a node's distance to itself, fixed by ACPI


@dataclass(frozen=True)
class Node:
    cpus: int
    memory_mb: int


@dataclass(frozen=True)
class Topology:
    name: str
    nodes: tuple[Node, ...]
    distances: tuple[tuple[int, ...], ...]
    threads: int = 1  # of each core
    loader: str = ""  # of machines that boot from their own disks; the others get their kernel from the emulator

    @property
    def cpus(self) -> int:
        return sum(node.cpus for node in self.nodes)

    @property
    def memory_mb(self) -> int:
        return sum(node.memory_mb for node in self.nodes)

    def cpus_of(self, number: int) -> range:
        """CPU numbers of one node; nodes get theirs in order."""
        first = sum(node.cpus for node in self.nodes[:number])
        return range(first, first + self.nodes[number].cpus)

    def __str__(self) -> str:
        nodes = (f"node {number}: {node.cpus} CPUs, {node.memory_mb} MiB" for number, node in enumerate(self.nodes))
        threads = f"; {self.threads} threads of each core" if self.threads > 1 else ""
        loader = f"; boots with {LOADERS[self.loader].title}" if self.loader else ""
        return f"{self.name}: {'; '.join(nodes)}{threads}{loader}"


TOPOLOGIES = {
    topology.name: topology
    for topology in (
        Topology("two-nodes", (Node(2, 2048), Node(2, 2048)), ((10, 20), (20, 10))),
        # A ring: the opposite node is farther away than both neighbours.
        Topology(
            "four-nodes",
            (Node(1, 1024),) * 4,
            ((10, 16, 22, 16), (16, 10, 16, 22), (22, 16, 10, 16), (16, 22, 16, 10)),
        ),
        # Like memory behind CXL: two nodes that no CPU belongs to.
        Topology(
            "memory-only",
            (Node(2, 2048), Node(0, 1024), Node(0, 1024)),
            ((10, 24, 28), (24, 10, 32), (28, 32, 10)),
        ),
        # Like a socket without DIMMs: all memory of node 1's CPUs is remote.
        Topology("cpu-only", (Node(2, 3072), Node(2, 0)), ((10, 20), (20, 10))),
        # SMT that the kernel can switch off.
        Topology("two-threads", (Node(4, 2048),), ((10,),), threads=2),
        Topology("with-grub", (Node(4, 2048),), ((10,),), loader="grub"),
        Topology("with-systemd-boot", (Node(4, 2048),), ((10,),), loader="systemd-boot"),
    )
}
DEFAULT = TOPOLOGIES["two-nodes"]
