"""Per NUMA node, the samples that agents send per cpu. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.wire.columns import Column

SOURCE, BESIDE = "cpu", "busy per cpu"  # the panel that it is made of
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
    """The columns of each node's cpus; {} of a host with one node, whose cpus are all there are."""
    columns_by_node: Parts = {}
    for row in (facts.get("cpus") or {}).get("topology") or []:
        columns_by_node.setdefault(f"node{row['node']}.cpus", []).append(f"cpu{row['cpu']}.busy")
    return (
        dict(sorted(columns_by_node.items(), key=lambda pair: int(pair[0][4:-5]))) if len(columns_by_node) > 1 else {}
    )


def needed(keys: Collection[str]) -> set[str]:
    """The panels that have to be read for these."""
    return {*keys, FROM} if KEY in keys else {*keys}


def with_nodes(table: Table, parts: Parts) -> Table:
    """A table of cpus with their nodes: of each the mean of those of its cpus that have a sample then."""
    with_means = dict(table)
    for name, cpus in parts.items():
        have = [table[cpu] for cpu in cpus if cpu in table]
        if have:
            rows = np.array(have)
            counted = np.count_nonzero(~np.isnan(rows), axis=0)
            with_means[name] = np.where(counted, np.nansum(rows, axis=0) / np.maximum(counted, 1), np.nan)
    return with_means
