"""Parse numactl --hardware and numactl --show of numactl 0.9 (which prints no CPUs) to 2.0.

Source: hardware(), print_distances() and show() in numactl.c, and samples of real hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from common.errors import FormatError
from readers.text import INT, shown, unreadable, whole_lines

WHERE_HARDWARE = "numactl --hardware"
WHERE_SHOW = "numactl --show"


@dataclass(frozen=True)
class Node:
    """`cpus` is None if the release does not print them. A node may have no memory, or no CPUs."""

    number: int
    cpus: tuple[int, ...] | None
    size_mb: int | None
    free_mb: int | None


@dataclass(frozen=True)
class Hardware:
    """`distances`: one row per node; empty if not printed. `missing`: announced nodes and rows of distances that are
    absent."""

    nodes: tuple[Node, ...]
    distances: tuple[tuple[int, ...], ...]
    missing: tuple[str, ...]


@dataclass
class _Hardware:
    nodes: dict[int, dict[str, str]] = field(default_factory=dict)
    distances: dict[int, tuple[int, ...]] = field(default_factory=dict)
    announced: int | None = None
    has_distances: bool = False

    def line(self, line: str, place: str) -> None:
        line = line.strip()
        node, row, announced = _NODE.fullmatch(line), _ROW.fullmatch(line), _AVAILABLE.fullmatch(line)
        if announced:
            self.announced = int(announced[1])
        elif node:
            facts = self.nodes.setdefault(int(node["number"]), {})
            if node["fact"] in facts:
                raise FormatError(place, f"{shown(line)} appears twice", hint="give one host's output at a time")
            facts[node["fact"]] = node["value"]
        elif line.startswith("node distances:"):
            self.has_distances = True
        elif row and self.has_distances:
            self.distances[int(row[1])] = tuple(map(int, row[2].split()))
        elif not line.startswith("node "):
            raise unreadable(place, line)

    def missing(self) -> tuple[str, ...]:
        nodes = [] if self.announced in (None, len(self.nodes)) else [f"nodes: {len(self.nodes)} of {self.announced}"]
        whole = [row for row in self.distances.values() if len(row) == len(self.nodes)]
        rows = self.has_distances and len(whole) != len(self.nodes)
        return (*nodes, *(["distances"] if rows else []))


_AVAILABLE = re.compile(r"available: ([0-9]{1,6}) nodes? \([0-9,-]{1,2000}\)")
_NODE = re.compile(r"node (?P<number>[0-9]{1,6}) (?P<fact>cpus|size|free):(?P<value>(?: [0-9]{1,9}){0,8192})(?: MB)?")
_ROW = re.compile(rf"([0-9]{{1,6}}):((?: +{INT}){{1,1024}})")


def parse_numactl_hardware(raw: bytes) -> Hardware:
    """Parse the nodes of a host. Raises FormatError if there is none, and for a line that numactl does not print."""
    reader = _Hardware()
    lines, cut = whole_lines(raw, WHERE_HARDWARE)
    for place, line in lines:
        reader.line(line, place)
    if not reader.nodes:
        raise FormatError(
            WHERE_HARDWARE, "the output contains no node", hint="the host has no NUMA, or the output is cut"
        )
    nodes = sorted(reader.nodes.items())
    return Hardware(
        nodes=tuple(
            Node(
                number=number,
                cpus=tuple(map(int, facts["cpus"].split())) if "cpus" in facts else None,
                size_mb=_megabytes(facts, "size"),
                free_mb=_megabytes(facts, "free"),
            )
            for number, facts in nodes
        ),
        distances=tuple(row for _, row in sorted(reader.distances.items())),
        missing=(*reader.missing(), *(["the last line"] * cut)),
    )


def _megabytes(facts: dict[str, str], name: str) -> int | None:
    figures = facts.get(name, "").split()
    return int(figures[0]) if len(figures) == 1 else None


@dataclass(frozen=True)
class Policy:
    """The policy of a process that starts now. `preferred_node` is "current" or a number. None: not printed. `cut`:
    the last line was incomplete and is left out."""

    policy: str
    preferred_node: str | None
    physcpubind: tuple[int, ...] | None
    cpubind: tuple[int, ...] | None
    nodebind: tuple[int, ...] | None
    membind: tuple[int, ...] | None
    cut: bool = False


def parse_numactl_show(raw: bytes) -> Policy:
    """Parse the policy. Raises FormatError if there is none, and for a line that is not `name: value`."""
    entries: dict[str, str] = {}
    lines, cut = whole_lines(raw, WHERE_SHOW)
    for place, line in lines:
        name, colon, value = line.partition(":")
        if not colon or name in entries:
            raise unreadable(place, line)
        entries[name] = value.strip()
    if not entries.get("policy"):
        raise FormatError(WHERE_SHOW, "the output contains no policy", hint="give the output of numactl --show")
    numbers = {name: _numbers(entries, name) for name in ("physcpubind", "cpubind", "nodebind", "membind")}
    return Policy(entries["policy"], entries.get("preferred node"), **numbers, cut=cut)


def _numbers(entries: dict[str, str], name: str) -> tuple[int, ...] | None:
    if name not in entries:
        return None
    numbers = entries[name].split()
    if not all(re.fullmatch(INT, number) for number in numbers):
        raise FormatError(WHERE_SHOW, f"{name} is {shown(entries[name])}", hint="expected numbers")
    return tuple(map(int, numbers))
