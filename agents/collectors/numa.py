"""Memory allocations of each NUMA node from its numastat, and free memory from its meminfo."""

from __future__ import annotations

import re

from ..facts.memory import node_ids
from ..facts.read import NODES
from ..wire.columns import Column, columns
from .base import Collector, Rates

COUNTERS = {
    "numa_hit": "on the intended node",
    "numa_miss": "on this node, although another was intended",
    "numa_foreign": "on another node, although this one was intended",
    "interleave_hit": "interleaved onto it, as intended",
    "local_node": "by a process that ran on the node",
    "other_node": "by a process that ran on another",
}
WORSE = ("numa_miss", "numa_foreign")
# "Node 0 MemFree:  123 kB", which stands in the first lines.
_LEFT = re.compile(r" (MemFree|MemUsed): +(\d+) kB")
_HEAD = 300


class Numa(Collector):
    name = "numa"
    help = (
        "Memory used and free on each NUMA node; pages allocated there, as intended or not, by local or remote "
        "processes"
    )
    columns = {
        **columns(
            "memory used per node",
            "kB",
            {"<node>.MemUsed": "not free, page cache included"},
            gauge=True,
            heat=True,
        ),
        **columns("memory free per node", "kB", {"<node>.MemFree": "unused"}, gauge=True, heat=True),
        **{
            f"<node>.{name}": Column(
                "pages/s", text, f"{name} per node", better="lower" if name in WORSE else "", heat=True
            )
            for name, text in COUNTERS.items()
        },
    }

    def start(self) -> None:
        nodes = node_ids(self.system)
        self._counted = {node: self.system.reader(f"{NODES}/node{node}/numastat") for node in nodes}
        self._left = {node: self.system.reader(f"{NODES}/node{node}/meminfo") for node in nodes}
        self._rates = Rates()
        self._rates.of(self._counts(), self.system.mono())

    def sample(self) -> dict[str, float]:
        memory = {
            f"node{node}.{name}": float(kb)
            for node, reader in self._left.items()
            for name, kb in _LEFT.findall(reader.text()[:_HEAD])
        }
        return {**memory, **self._rates.of(self._counts(), self.system.mono())}

    def _counts(self) -> dict[str, float]:
        return {
            f"node{node}.{name}": float(count)
            for node, reader in self._counted.items()
            for name, count in (line.split() for line in reader.text().splitlines())
            if name in COUNTERS
        }
