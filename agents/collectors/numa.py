"""Where the kernel found memory, node by node, from each node's numastat."""

from __future__ import annotations

from ..facts.memory import NODES, node_ids
from .base import Collector, Rates, columns

NAMES = ("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node")


class Numa(Collector):
    name = "numa"
    help = "Pages allocated on each NUMA node, as wanted or not, by processes of the node or of others"
    columns = {
        **columns(
            "allocated as wanted",
            "pages/s",
            {
                "<node>.numa_hit": "on the node that was wanted",
                "<node>.interleave_hit": "interleaved onto it, as wanted",
            },
        ),
        **columns(
            "allocated elsewhere",
            "pages/s",
            {
                "<node>.numa_miss": "on this node, although another was wanted",
                "<node>.numa_foreign": "on another node, although this one was wanted",
            },
            better="lower",
        ),
        **columns(
            "allocated near and far",
            "pages/s",
            {
                "<node>.local_node": "by a process that ran on the node",
                "<node>.other_node": "by a process that ran on another",
            },
        ),
    }

    def start(self) -> None:
        nodes = node_ids(self.system)
        self._nodes = {node: self.system.reader(f"{NODES}/node{node}/numastat") for node in nodes}
        self._rates = Rates()
        self._rates.of(self._read(), self.system.mono())

    def sample(self) -> dict[str, float]:
        return self._rates.of(self._read(), self.system.mono())

    def _read(self) -> dict[str, float]:
        return {
            f"node{node}.{name}": float(count)
            for node, reader in self._nodes.items()
            for name, count in (line.split() for line in reader.text().splitlines())
            if name in NAMES
        }
