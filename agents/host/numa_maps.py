"""The content of /proc/PID/numa_maps: policy, pages per node and page size of each mapping. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, Iterator

# Two policies have a blank in their name. Older kernels write interleave=0-1, newer ones interleave:0-1.
_LINE = re.compile(r"^[0-9a-f]+ ((?:weighted interleave|prefer \(many\)|[a-z]+)\S*)(.*)$")
_SEGMENT = re.compile(r" file=(/dev/zero|/SYSV|/anon_hugepage|/memfd)")
_PAGES = re.compile(r" N(\d+)=(\d+)")
_PAGE_KB = re.compile(r" kernelpagesize_kB=(\d+)")

PerNode = dict[str, int]


@dataclass(frozen=True)
class Mapping:
    """One line. `kind`: shared (memory that processes share), file (the page cache too) or private (anonymous).
    `segment` marks PostgreSQL's main segment, which has no name in a file system. `kb` is {node: kB}."""

    policy: str
    kind: str
    segment: bool
    page_kb: int
    kb: PerNode


def parse(text: str) -> list[Mapping]:
    """Every whole line; a last line that was cut is left out only when its policy was."""
    return [mapping for line in text.splitlines() for mapping in _mapping(line)]


def _mapping(line: str) -> Iterator[Mapping]:
    match = _LINE.match(line)
    if not match:
        return
    policy, rest = re.sub(r"=(?=\d)", ":", match.group(1)), match.group(2)
    segment = bool(_SEGMENT.search(rest))
    shared = segment or " file=/dev/shm/" in rest
    kind = "shared" if shared else "file" if " file=" in rest else "private"
    page_kb = int((_PAGE_KB.search(rest) or ["", "4"])[1])
    yield Mapping(policy, kind, segment, page_kb, {n: int(count) * page_kb for n, count in _PAGES.findall(rest)})


def policies(mappings: Iterable[Mapping]) -> list[str]:
    """Return the policy of a process. Shared mappings may have another policy, set by other processes."""
    return sorted({mapping.policy for mapping in mappings if mapping.kind != "shared"})


def total(mappings: Iterable[Mapping]) -> PerNode:
    """kB per node of all together: {"0": 1024, "1": 2048}."""
    summed: PerNode = {}
    for mapping in mappings:
        for node, kb in mapping.kb.items():
            summed[node] = summed.get(node, 0) + kb
    return dict(sorted(summed.items(), key=lambda pair: int(pair[0])))


def by_kind(mappings: Iterable[Mapping]) -> dict[str, PerNode]:
    """{"shared": {"0": kB}, "private": {...}, "file": {...}}."""
    mappings = list(mappings)
    return {kind: total(m for m in mappings if m.kind == kind) for kind in ("shared", "private", "file")}


def by_policy(mappings: Iterable[Mapping]) -> dict[str, PerNode]:
    """{"interleave:0-1": {"0": kB, "1": kB}, ...}, without files of the page cache, which no policy has placed."""
    mappings = [mapping for mapping in mappings if mapping.kind != "file"]
    names = sorted({mapping.policy for mapping in mappings})
    return {name: total(m for m in mappings if m.policy == name) for name in names}
