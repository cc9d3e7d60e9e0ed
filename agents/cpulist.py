"""Lists of cpus and of NUMA nodes, in the kernel's spelling ("0-3,5") and back. Pure."""

from __future__ import annotations

import re
from typing import Any, Iterable

_LIST = re.compile(r"^\d+(-\d+)?(,\d+(-\d+)?)*$")
_MASK = re.compile(r"^0x[0-9a-fA-F]+$")


def parse(text: str) -> list[int]:
    """ "0-3,5" -> [0, 1, 2, 3, 5]; "" is no cpu. ValueError when it is no list."""
    text = text.strip()
    if not text:
        return []
    if not _LIST.match(text):
        raise ValueError(f"{text!r} is not a list such as 0-3,5")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(_span(int(first), int(last or first)))
    return sorted(found)


def _span(first: int, last: int) -> range:
    if last < first or last > 65535:
        raise ValueError(f"{first}-{last} is not a range of cpus")
    return range(first, last + 1)


def render(cpus: Iterable[int]) -> str:
    """[0, 1, 2, 5] -> "0-2,5"."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def from_mask(text: str) -> list[int]:
    """ "0x6" -> [1, 2]."""
    bits = int(text, 16)
    return [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]


def choose(text: str, nodes: list[dict[str, Any]]) -> list[int]:
    """The cpus that "0-3,5", "0x6" or "node:0" mean; `nodes` as in facts["numa"]["nodes"]. ValueError otherwise."""
    text = text.strip()
    if _MASK.match(text):
        return from_mask(text)
    if not text.startswith("node:"):
        return parse(text)
    wanted = parse(text[len("node:") :])
    known = {int(node["id"]): parse(node["cpus"]) for node in nodes}
    if not wanted or any(node not in known for node in wanted):
        raise ValueError(f"nodes are {render(known) or 'none'}")
    return sorted(cpu for node in wanted for cpu in known[node])
