"""The plan of a statement as a tree of nodes, independent of EXPLAIN's format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

WHERE = "EXPLAIN"
DEEPEST = 150  # deepest accepted level of a plan; deeper input would exhaust Python's stack
MOST_NODES = 100_000

_PUNCTUATION = re.compile(r"[\W_]+")


def canonical(key: str) -> str:
    """Return a key in lower case with underscores. XML writes `I-O-Read-Time` for the `I/O Read Time` of the other
    formats."""
    return _PUNCTUATION.sub("_", key).lower()


@dataclass(frozen=True)
class Buffers:
    """Numbers of blocks (8 kB by default). The buffers of a node include those of its children."""

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
    """One node of a plan. Times (ms) and rows are per loop, as printed.

    `label`: the node's name in the text format, whatever the input format. `node_type`: `Node Type` in JSON, YAML
    and XML; in text, the words before ` on ` or ` using `. Without ANALYZE the actual values are None; a node that
    never ran has 0 loops. `details`: every other property of one line, by canonical key."""

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
        """Yield the labels of this node and its descendants, indented by two spaces per level."""
        yield "  " * depth + self.label
        for child in self.children:
            yield from child.outline(depth + 1)


@dataclass(frozen=True)
class Plan:
    """One plan. PostgreSQL 9.4 and later print `execution_ms`; earlier releases print `total_runtime_ms`.
    `settings`: with SETTINGS, the planner settings that differ from their defaults."""

    root: Node
    planning_ms: float | None = None
    execution_ms: float | None = None
    total_runtime_ms: float | None = None
    planning_buffers: Buffers | None = None
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def shape(self) -> str:
        """Node types and relations without figures, one line per node. Equal plans have equal shapes, whatever they
        cost."""
        return "\n".join(self.root.outline())

    @property
    def analyzed(self) -> bool:
        return self.root.loops is not None

    @property
    def missing(self) -> tuple[str, ...]:
        """What an executed plan should have but lacks: the output is incomplete, or SUMMARY was off."""
        has_time = self.execution_ms is not None or self.total_runtime_ms is not None
        return () if has_time or not self.analyzed else ("execution time",)


@dataclass(frozen=True)
class Explain:
    """All plans of an output, in order. `format`: text, json, yaml or xml. `cut`: the last line has no newline, and
    the value that may have lost digits is left out."""

    format: str
    plans: tuple[Plan, ...]
    cut: bool = False

    @property
    def shape(self) -> str:
        """The shapes of all plans."""
        return "\n\n".join(plan.shape for plan in self.plans)
