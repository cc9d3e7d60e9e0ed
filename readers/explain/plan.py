"""What EXPLAIN says, in whichever of its formats: plans as trees of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

WHERE = "EXPLAIN"
DEEPEST = 150  # levels of a plan, and of what holds it; beyond, Python's own stack would be the limit
MOST_NODES = 100_000

_PUNCTUATION = re.compile(r"[\W_]+")


def canonical(key: str) -> str:
    """A key in lower case with underscores: XML writes `I-O-Read-Time` for the `I/O Read Time` of the others."""
    return _PUNCTUATION.sub("_", key).lower()


@dataclass(frozen=True)
class Buffers:
    """Blocks of the server's block size (8 kB unless it was built otherwise); of a node, its children's included."""

    shared_hit: int = 0
    shared_read: int = 0
    shared_dirtied: int = 0
    shared_written: int = 0
    local_hit: int = 0
    local_read: int = 0
    local_dirtied: int = 0
    local_written: int = 0
    temp_read: int = 0
    temp_written: int = 0


@dataclass(frozen=True)
class Node:
    """One node. `label` is what the text format calls it, in every format; times and rows are per loop, as printed.

    `node_type` is the `Node Type` of JSON, YAML and XML; of text, what stands before ` on ` or ` using `. Without
    ANALYZE nothing is actual; a node that never ran has 0 loops. `details` holds all else that is said in one line,
    by canonical key.
    """

    label: str
    node_type: str
    relation: str | None = None
    index: str | None = None
    startup_cost: float | None = None
    total_cost: float | None = None
    plan_rows: float | None = None
    plan_width_bytes: int | None = None
    actual_startup_ms: float | None = None
    actual_total_ms: float | None = None
    actual_rows: float | None = None
    loops: int | None = None
    buffers: Buffers | None = None
    io_read_ms: float | None = None
    io_write_ms: float | None = None
    wal_bytes: int | None = None
    details: tuple[tuple[str, str], ...] = ()
    children: tuple[Node, ...] = ()

    def outline(self, depth: int = 0) -> Iterator[str]:
        """The labels of this node and those below, indented by two spaces a level."""
        yield "  " * depth + self.label
        for child in self.children:
            yield from child.outline(depth + 1)


@dataclass(frozen=True)
class Plan:
    """One plan. `execution_ms` is there from 9.4 on; up to 9.3 it was `total_runtime_ms`. `settings` that are not
    default and bear on planning, with SETTINGS."""

    root: Node
    planning_ms: float | None = None
    execution_ms: float | None = None
    total_runtime_ms: float | None = None
    planning_buffers: Buffers | None = None
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def shape(self) -> str:
        """Node types and relations without figures, a line a node: equal for equal plans, whatever they cost."""
        return "\n".join(self.root.outline())

    @property
    def analyzed(self) -> bool:
        return self.root.loops is not None

    @property
    def missing(self) -> tuple[str, ...]:
        """What an executed plan has and this one does not: the output is cut, or SUMMARY was off."""
        has_time = self.execution_ms is not None or self.total_runtime_ms is not None
        return () if has_time or not self.analyzed else ("execution time",)


@dataclass(frozen=True)
class Explain:
    """All plans of an output, in its order. `format` is text, json, yaml or xml. `cut`: the last line has no end,
    and what it may have lost is left out."""

    format: str
    plans: tuple[Plan, ...]
    cut: bool = False

    @property
    def shape(self) -> str:
        """The shapes of its plans; one where there is one plan."""
        return "\n\n".join(plan.shape for plan in self.plans)
