"""Parse lscpu -e and lscpu -p: one line per CPU.

Source: print_cpus_readable() and print_cpus_parsable() in util-linux's sys-utils/lscpu.c. The caller of lscpu
chooses the columns. Unknown values are "-" with -e and empty with -p."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from common.errors import FormatError
from readers.text import INT, whole_lines

WHERE = "lscpu -e or -p"


@dataclass(frozen=True)
class CpuRow:
    """One logical CPU. Values that its line lacks are None. `others`: the other columns, by lscpu's names."""

    number: int
    core: int | None
    socket: int | None
    node: int | None
    online: bool | None
    others: Mapping[str, str]


@dataclass(frozen=True)
class LscpuTable:
    """All CPUs. `cut`: the last line was incomplete and is left out."""

    cpus: tuple[CpuRow, ...]
    cut: bool


def parse_lscpu_table(raw: bytes) -> LscpuTable:
    """Parse either form. Raises FormatError without a heading or a CPU, for a line of the wrong length, and for a
    repeated CPU."""
    lines, cut = whole_lines(raw, WHERE)
    rows = list(_rows(lines))
    if not rows:
        raise FormatError(WHERE, "the output contains no CPU", hint="give the output of lscpu -e or lscpu -p")
    numbers = [row.number for row in rows]
    if len(set(numbers)) < len(numbers):
        raise FormatError(WHERE, "a CPU appears twice", hint="give one host's output at a time")
    return LscpuTable(tuple(rows), cut)


def _rows(lines: Iterator[tuple[str, str]]) -> Iterator[CpuRow]:
    head: list[str] = []
    for place, line in lines:
        if line.startswith("#"):
            names = line.lstrip("# ").upper().split(",")
            head = names if names[0] == "CPU" else head
        elif not head:
            head = line.upper().split()
            if "CPU" not in head:
                raise FormatError(place, "the heading has no column CPU", hint="give the complete output")
        else:
            cells = line.split(",") if "," in line and "," in _joined(head, line) else line.split()
            if len(cells) != len(head):
                raise FormatError(place, f"{len(cells)} cells", hint=f"the heading has {len(head)}")
            yield _row(dict(zip(head, cells, strict=True)), place)


def _joined(head: list[str], line: str) -> str:
    # With -e spaces separate cells, so a comma is a decimal comma.
    return "" if len(line.split()) == len(head) > 1 else line


def _row(cells: dict[str, str], place: str) -> CpuRow:
    number = _integer(cells.pop("CPU", ""), place)
    if number is None:
        raise FormatError(place, "the row has no CPU number", hint="expected a column CPU")
    core, socket, node = (_integer(cells.pop(name, ""), place) for name in ("CORE", "SOCKET", "NODE"))
    online = {"yes": True, "no": False, "Y": True, "N": False}.get(cells.pop("ONLINE", ""))
    return CpuRow(number, core, socket, node, online, {name: cell for name, cell in cells.items() if name and cell})


def _integer(cell: str, place: str) -> int | None:
    if cell in ("", "-"):
        return None
    if not re.fullmatch(INT, cell):
        raise FormatError(place, f"{cell[:40]!r} is not a number", hint="expected a whole number or -")
    return int(cell)
