"""Parse numastat's counters per node, and compute differences between two outputs.

Source: numastat.c of numactl, the kernel's Documentation/admin-guide/numastat.rst, and samples of real hosts.
Counters are pages of 4 kB since boot. `numastat -n` prints MB and is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import FormatError
from readers.text import INT, shown, unreadable, whole_lines

WHERE = "numastat"
COUNTERS = ("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node")


@dataclass(frozen=True)
class Numastat:
    """`pages`: counter -> one value per node, in the order of `nodes`. `missing`: those of COUNTERS that are absent."""

    nodes: tuple[str, ...]
    pages: Mapping[str, tuple[int, ...]]
    missing: tuple[str, ...]

    def since(self, before: Numastat) -> dict[str, tuple[int, ...]]:
        """Return the pages counted between `before` and this output. Raises FormatError if host or boot differ."""
        if self.nodes != before.nodes:
            raise FormatError(
                WHERE, f"nodes are {self.nodes}, and were {before.nodes}", hint="give two outputs of one host"
            )
        both = {name: (after, before.pages[name]) for name, after in self.pages.items() if name in before.pages}
        grown = {name: tuple(b - a for b, a in zip(*pair, strict=True)) for name, pair in both.items()}
        shrunk = [name for name, counts in grown.items() if min(counts) < 0]
        if shrunk:
            raise FormatError(
                WHERE,
                f"{shrunk[0]} has shrunk",
                hint="the host was restarted in between, or the outputs are in the wrong order",
            )
        return grown


def parse_numastat(raw: bytes) -> Numastat:
    """Parse the table. Raises FormatError without nodes, and for a row that does not have one value per node."""
    lines, cut = whole_lines(raw, WHERE)
    nodes = tuple(next(lines, ("", ""))[1].split())
    if not nodes or not all(re.fullmatch("node[0-9]{1,9}", node) for node in nodes):
        raise FormatError(
            WHERE, "the output does not begin with node0 node1 ...", hint="give the output of numastat without options"
        )
    pages: dict[str, tuple[int, ...]] = {}
    for place, line in lines:
        name, *figures = line.split()
        if not re.fullmatch("[a-z_]{1,40}", name) or not all(re.fullmatch(INT, figure) for figure in figures):
            raise unreadable(place, line)
        if len(figures) != len(nodes) or name in pages:
            raise FormatError(place, f"{shown(line)} has {len(figures)} figures", hint=f"there are {len(nodes)} nodes")
        pages[name] = tuple(map(int, figures))
    if not pages:
        raise FormatError(WHERE, "the output contains no counter", hint="the output is cut")
    missing = [name for name in COUNTERS if name not in pages]
    return Numastat(nodes, pages, tuple(missing or ["the last line"] * cut))
