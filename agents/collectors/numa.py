"""Where the kernel found memory, node by node, from each node's numastat."""

from __future__ import annotations

from ..facts.memory import NODES, node_ids
from .base import Collector

NAMES = ("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node")


class Numa(Collector):
    name = "numa"
    help = "Pages allocated on each NUMA node, as wanted or not, by processes of the node or of others"
    columns = {
        "nodeN.numa_hit": "pages/s allocated on node N, as wanted",
        "nodeN.numa_miss": "pages/s allocated on node N, although another was wanted",
        "nodeN.numa_foreign": "pages/s wanted on node N, but allocated on another",
        "nodeN.interleave_hit": "pages/s interleaved onto node N, as wanted",
        "nodeN.local_node": "pages/s allocated on node N by a process that ran there",
        "nodeN.other_node": "pages/s allocated on node N by a process that ran on another",
    }

    def start(self) -> None:
        self._last, self._at = self._read(), self.system.mono()

    def sample(self) -> dict[str, float]:
        now, at = self._read(), self.system.mono()
        seconds = max(at - self._at, 1e-3)
        rates = {name: round((now[name] - self._last.get(name, now[name])) / seconds, 1) for name in now}
        self._last, self._at = now, at
        return rates

    def _read(self) -> dict[str, int]:
        texts = {node: self.system.text(f"{NODES}/node{node}/numastat") for node in node_ids(self.system)}
        return {
            f"node{node}.{name}": int(count)
            for node, text in texts.items()
            for name, count in (line.split() for line in text.splitlines())
            if name in NAMES
        }
