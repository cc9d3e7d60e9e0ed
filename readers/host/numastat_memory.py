"""Parse numastat -m: memory per node in MB, as in /sys/devices/system/node/*/meminfo.

Source: show_system_info() in numastat.c of numactl, and outputs of real hosts. On narrow terminals the nodes are
split into several blocks, each with its own heading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import FormatError
from readers.text import NUMBER, shown, unreadable, whole_lines

WHERE = "numastat -m"


@dataclass(frozen=True)
class NumastatMemory:
    """`mb`: name -> one value per node, in the order of `nodes`; `total_mb`: sums over all nodes. `cut`: the last
    line was incomplete and is left out."""

    nodes: tuple[int, ...]
    mb: Mapping[str, tuple[float, ...]]
    total_mb: Mapping[str, float]
    cut: bool


_COLUMN = re.compile(r"Node ([0-9]{1,9})|(Total)")
_ROW = re.compile(rf"(?P<name>[A-Za-z][A-Za-z0-9_()]{{0,60}})(?P<figures>(?: +{NUMBER})+)")
_PASSED_OVER = re.compile(r"Per-node |Token .* not in hash table|[ -]*$")


def parse_numastat_memory(raw: bytes) -> NumastatMemory:
    """Parse the table. Raises FormatError without a value, and for a row that does not have one value per column."""
    lines, cut = whole_lines(raw, WHERE)
    columns: list[str] = []
    cells: dict[str, dict[str, float]] = {}
    for place, line in lines:
        row = _ROW.fullmatch(line)
        if _COLUMN.match(line.strip()) and line.startswith(" "):
            columns = [match[1] or match[2] for match in _COLUMN.finditer(line)]
        elif row:
            figures = [float(figure) for figure in row["figures"].split()]
            known = cells.setdefault(row["name"], {})
            if len(figures) != len(columns) or known.keys() & set(columns):
                raise FormatError(place, f"{shown(line)} has {len(figures)} figures", hint=f"columns: {columns}")
            known |= dict(zip(columns, figures, strict=True))
        elif not _PASSED_OVER.match(line):
            raise unreadable(place, line)
    return _report(cells, cut)


def _report(cells: dict[str, dict[str, float]], cut: bool) -> NumastatMemory:
    nodes = sorted({int(column) for row in cells.values() for column in row if column != "Total"})
    if not nodes:
        raise FormatError(WHERE, "the output contains no figure", hint="give the output of numastat -m")
    # If the table ends within its last block, its last rows have no values for the nodes of that block.
    whole = {name: row for name, row in cells.items() if all(str(node) in row for node in nodes)}
    return NumastatMemory(
        nodes=tuple(nodes),
        mb={name: tuple(row[str(node)] for node in nodes) for name, row in whole.items()},
        total_mb={name: row["Total"] for name, row in whole.items() if "Total" in row},
        cut=cut,
    )
