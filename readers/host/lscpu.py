"""Parse lscpu's text and JSON (-J) of util-linux 2.23 to 2.4x, in English.

Source: print_summary() in util-linux's sys-utils/lscpu.c, and samples of real hosts. JSON has the names of the text,
and newer releases nest its entries if they write to a terminal. Names are translated in other locales: run lscpu
with LC_ALL=C."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import FormatError
from readers.text import is_unfinished, lines_of, shown, whole_lines

WHERE = "lscpu"


@dataclass(frozen=True)
class Lscpu:
    """Absent entries are None. `nodes_cpus`: NUMA node -> its CPUs. `entries`: all entries, by lscpu's names. `cut`:
    the last line was incomplete and is left out."""

    architecture: str
    cpus: int
    model: str | None
    vendor: str | None
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    numa_nodes: int | None
    nodes_cpus: tuple[tuple[int, tuple[int, ...]], ...]
    hypervisor: str | None
    entries: Mapping[str, str]
    cut: bool = False


def parse_lscpu(raw: bytes) -> Lscpu:
    """Parse text or JSON. Raises FormatError if architecture and CPUs are missing, or if an entry cannot be read."""
    is_json = raw.lstrip()[:1] == b"{"
    entries = dict(_json_entries(raw) if is_json else _text_entries(raw))
    if "Architecture" not in entries or "CPU(s)" not in entries:
        raise FormatError(
            WHERE, "the output contains no architecture or no CPUs", hint="give the output of LC_ALL=C lscpu"
        )
    nodes = ((_NODE.fullmatch(name), value) for name, value in entries.items())
    return Lscpu(
        architecture=entries["Architecture"],
        cpus=_number(entries, "CPU(s)") or 0,
        model=entries.get("Model name"),
        vendor=entries.get("Vendor ID"),
        # On s390x lscpu counts sockets per book.
        sockets=_number(entries, "Socket(s)"),
        cores_per_socket=_number(entries, "Core(s) per socket"),
        threads_per_core=_number(entries, "Thread(s) per core"),
        numa_nodes=_number(entries, "NUMA node(s)"),
        nodes_cpus=tuple(sorted((int(node[1]), cpu_list(value)) for node, value in nodes if node)),
        hypervisor=entries.get("Hypervisor vendor"),
        entries=entries,
        cut=not is_json and is_unfinished(raw),
    )


_NODE = re.compile(r"NUMA node([0-9]{1,6}) CPU\(s\)")


def _text_entries(raw: bytes) -> Iterator[tuple[str, str]]:
    for place, line in whole_lines(raw, WHERE)[0]:
        name, colon, value = line.strip().partition(":")
        if not colon:
            raise FormatError(place, f"cannot read {shown(line)}", hint="expected name: value")
        yield name, value.strip()


def _json_entries(raw: bytes) -> Iterator[tuple[str, str]]:
    try:
        document = json.loads("\n".join(lines_of(raw, WHERE)))
    except (ValueError, RecursionError) as error:
        raise FormatError(WHERE, f"the JSON is cut or damaged: {error}", hint="give the output of lscpu -J") from None
    yield from _flat(document.get("lscpu") if isinstance(document, dict) else None)


def _flat(entries: Any) -> Iterator[tuple[str, str]]:
    """Yield field and data of each entry and its children."""
    if not isinstance(entries, list):
        raise FormatError(WHERE, f"{shown(json.dumps(entries))} is not a list", hint="give the output of lscpu -J")
    for entry in entries:
        match entry:
            case {"field": str(name), "data": str() | None as data}:
                yield name.rstrip(":"), data or ""
            case _:
                raise FormatError(WHERE, f"cannot read {shown(json.dumps(entry))}", hint="expected field and data")
        yield from _flat(entry.get("children", []))


def _number(entries: Mapping[str, str], name: str) -> int | None:
    value = entries.get(name, "-")
    if value in ("-", ""):
        return None
    if not re.fullmatch("[0-9]{1,9}", value):
        raise FormatError(WHERE, f"{name} is {shown(value)}", hint="expected a number")
    return int(value)


_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
MOST_CPUS = 65536


def cpu_list(text: str) -> tuple[int, ...]:
    """Parse a list of CPUs as the kernel writes it: 0-2,4 -> (0, 1, 2, 4). Raises FormatError for anything else."""
    cpus: list[int] = []
    for part in text.split(",") if text else []:
        match = _RANGE.fullmatch(part.strip())
        if match is None or len(cpus) > MOST_CPUS:
            raise FormatError(WHERE, f"{shown(text)} is not a list of CPUs", hint="expected 0-3,8")
        cpus.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(cpus)
