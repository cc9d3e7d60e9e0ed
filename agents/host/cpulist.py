"""Lists of cpus and of NUMA nodes, in the kernel's spelling ("0-3,5") and back. Pure."""

from __future__ import annotations

import re
from typing import Any, Iterable, Sequence

_LIST = re.compile(r"^\d+(-\d+)?(,\d+(-\d+)?)*$")
MAX_CPUS, MAX_DIGITS = 65_536, 9
_MASK = re.compile(r"^0x[0-9a-fA-F]+$")


def parse(text: str) -> list[int]:
    """ "0-3,5" -> [0, 1, 2, 3, 5]; "" is no cpu. ValueError when it is no list."""
    return sorted(set[int]().union(*_spans(text)))


def count(text: str) -> int:
    """How many cpus a list names, each as often as it is named. ValueError when it is no list."""
    return sum(map(len, _spans(text)))


def _spans(text: str) -> list[range]:
    text = text.strip()
    if not text:
        return []
    if not _LIST.match(text):
        raise ValueError(f"{text!r} is not a list such as 0-3,5")
    spans: list[range] = []
    counted = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        spans.append(_span(int(first[:MAX_DIGITS]), int((last or first)[:MAX_DIGITS])))
        counted += len(spans[-1])
        if counted > MAX_CPUS:  # a list may name the same cpus again and again
            raise ValueError(f"{text[:40]!r}... names more than {MAX_CPUS} cpus")
    return spans


def _span(first: int, last: int) -> range:
    if last < first or last >= MAX_CPUS:
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


# cpus, then which threads of their cores: "0-3,5", "0x6", "node:1", "socket:0 cores", "cores:0-3"
_PLACE = r"\d+(-\d+)?(,\d+(-\d+)?)*|0x[0-9a-fA-F]+|(node|socket):\d+(-\d+)?(,\d+(-\d+)?)*"
_CORES = r"cores(:\d+(-\d+)?(,\d+(-\d+)?)*)?"
PATTERN = rf"^(({_PLACE})( {_CORES})?|{_CORES})$"
GRAMMAR = (
    "A list of CPUs (0-3,5), a mask (0x6), node:1 or socket:0. Add cores for one thread of each core, or "
    "cores:0-3 for the first four cores. cores also works alone"
)


def choose(text: str, nodes: list[dict[str, Any]], topology: Sequence[dict[str, Any]] = ()) -> list[int]:
    """The cpus that a text of GRAMMAR means; `nodes` and `topology` as in the facts. ValueError otherwise."""
    places = [word for word in text.split() if not word.startswith("cores")]
    cores = [word for word in text.split() if word.startswith("cores")]
    chosen = _place(places[0], nodes, topology) if places else [int(row["cpu"]) for row in topology]
    return _threads(cores[0], chosen, topology) if cores else chosen


def _place(text: str, nodes: list[dict[str, Any]], topology: Sequence[dict[str, Any]]) -> list[int]:
    if _MASK.match(text):
        return from_mask(text)
    kind, colon, listed = text.partition(":")
    if not colon:
        return parse(text)
    known: dict[int, list[int]] = {int(node["id"]): parse(node["cpus"]) for node in nodes} if kind == "node" else {}
    for row in topology if kind == "socket" else ():
        known.setdefault(int(row["socket"]), []).append(int(row["cpu"]))
    known = {number: cpus for number, cpus in known.items() if cpus}
    numbers = parse(listed)
    if not numbers or any(one not in known for one in numbers):
        raise ValueError(f"existing {kind}s with CPUs: {render(known) or 'none'}")
    return sorted(cpu for one in numbers for cpu in known[one])


def _threads(text: str, chosen: list[int], topology: Sequence[dict[str, Any]]) -> list[int]:
    """The first of the chosen threads of each core, of all cores or of those counted from 0."""
    first: dict[str, int] = {}
    for row in sorted(topology, key=lambda row: int(row["cpu"])):
        if row["cpu"] in chosen:
            first.setdefault(str(row["siblings"]), int(row["cpu"]))
    cpus = sorted(first.values())
    numbers = parse(text.partition(":")[2]) or range(len(cpus))
    if max(numbers, default=0) >= len(cpus):
        raise ValueError(f"existing cores: {render(range(len(cpus))) or 'none'}")
    return [cpus[number] for number in numbers]
