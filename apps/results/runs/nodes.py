"""Combine samples per CPU to samples per NUMA node. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.wire.columns import Column

SOURCE, BESIDE = "cpu", "busy per cpu"  # the panel with the values per CPU
ANY = "<node>.cpus"
BUSY = Column(
    "%", "percentage of time that the CPUs of one NUMA node were not idle, mean", "busy per node", shown=True, heat=True
)
KEY, FROM = f"{SOURCE}.{BUSY.group}", f"{SOURCE}.{BESIDE}"
_NAME = re.compile(r"(node\d+|<node>)\.cpus")

Table = dict[str, NDArray[np.float64]]
Parts = dict[str, list[str]]  # node0.cpus -> [cpu0.busy, ...]


def column(source: str, name: str) -> Column | None:
    return BUSY if source == SOURCE and _NAME.fullmatch(name) else None


def parts_of(facts: Mapping[str, Any]) -> Parts:
    """Return the columns of each node's CPUs; {} for a host with one node, which has all CPUs."""
    columns_by_node: Parts = {}
    for row in (facts.get("cpus") or {}).get("topology") or []:
        columns_by_node.setdefault(f"node{row['node']}.cpus", []).append(f"cpu{row['cpu']}.busy")
    return (
        dict(sorted(columns_by_node.items(), key=lambda pair: int(pair[0][4:-5]))) if len(columns_by_node) > 1 else {}
    )


def panels_to_read(keys: Collection[str]) -> set[str]:
    """Return the panels that have to be read for these."""
    return {*keys, FROM} if KEY in keys else {*keys}


def with_nodes(table: Table, parts: Parts) -> Table:
    """Add the nodes to a table of CPUs: the mean of those CPUs of a node that have a sample at that time."""
    with_means = dict(table)
    for name, cpus in parts.items():
        have = [table[cpu] for cpu in cpus if cpu in table]
        if have:
            rows = np.array(have)
            counted = np.count_nonzero(~np.isnan(rows), axis=0)
            with_means[name] = np.where(counted, np.nansum(rows, axis=0) / np.maximum(counted, 1), np.nan)
    return with_means
