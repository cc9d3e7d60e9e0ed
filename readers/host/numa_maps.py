"""Parse /proc/PID/numa_maps of Linux 2.6 to 6.x.

Source: show_numa_map() in the kernel's fs/proc/task_mmu.c, mpol_to_str() in mm/mempolicy.c, and samples of real
processes. Older kernels write interleave=0-1 instead of interleave:0-1; the names of two policies contain a space.
Lines without pages have no page size."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from common.errors import FormatError
from readers.text import INT, unreadable, whole_lines

WHERE = "numa_maps"

# Names that the kernel gives to shared memory without a file: System V, mmap and POSIX.
_SHARED = ("/SYSV", "/dev/zero", "/dev/shm/", "/anon_hugepage", "/memfd")  # noqa: S108

Pages = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line. `pages`: (node, number of pages of `page_kb`), in the order of the line."""

    start: int
    policy: str
    file: str | None
    anon_pages: int
    dirty_pages: int
    page_kb: int
    pages: Pages

    @property
    def total_pages(self) -> int:
        return sum(count for _, count in self.pages)

    @property
    def is_shared(self) -> bool:
        """Whether processes share this memory. Its placement follows its own policy, not that of a process."""
        return bool(self.file and self.file.startswith(_SHARED))


@dataclass(frozen=True)
class NumaMaps:
    """`shared_segment`: the largest shared mapping. It is PostgreSQL's shared memory, not the segment of one page
    that PostgreSQL also has. `cut`: the last line was incomplete and is left out."""

    mappings: tuple[Mapping, ...]
    shared_segment: Mapping | None
    cut: bool

    @property
    def policies(self) -> dict[str, int]:
        """The number of mappings of each policy."""
        return dict(Counter(mapping.policy for mapping in self.mappings))

    @property
    def process_policy(self) -> str | None:
        """The most frequent policy of mappings that are not shared; None if all are shared."""
        own = Counter(mapping.policy for mapping in self.mappings if not mapping.is_shared)
        return own.most_common(1)[0][0] if own else None

    @property
    def kb_per_node(self) -> dict[int, int]:
        """The memory on each node in kB; each line counts with its own page size."""
        summed: Counter[int] = Counter()
        for mapping in self.mappings:
            summed.update({node: count * mapping.page_kb for node, count in mapping.pages})
        return dict(sorted(summed.items()))


_POLICY = r"(?:weighted interleave|prefer \(many\)|[a-z]+)(?:[=:][^ ]*)?"
_LINE = re.compile(rf"(?P<start>[0-9a-f]{{1,16}}) (?P<policy>{_POLICY})(?P<rest>(?: .*)?)")
_COUNT = re.compile(rf"(?:N(?P<node>[0-9]{{1,9}})|(?P<name>[A-Za-z_]+))=(?P<count>{INT})")
# The kernel escapes spaces in names.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def parse_numa_maps(raw: bytes) -> NumaMaps:
    """Parse a complete file. Raises FormatError without a mapping, and for a line that the kernel does not write."""
    lines, cut = whole_lines(raw, WHERE)
    mappings: dict[int, Mapping] = {}
    for place, line in lines:
        mapping = _mapping(line, place)
        if mapping.start in mappings:
            raise FormatError(place, f"{mapping.start:x} appears twice", hint="give the file of one process, read once")
        mappings[mapping.start] = mapping
    if not mappings:
        raise FormatError(
            WHERE, "the file contains no mapping", hint="the process had ended, or the kernel has no NUMA"
        )
    shared = (mapping for mapping in mappings.values() if mapping.is_shared)
    largest = max(shared, key=lambda mapping: mapping.total_pages * mapping.page_kb, default=None)
    return NumaMaps(tuple(mappings.values()), largest, cut)


def _mapping(line: str, place: str) -> Mapping:
    match = _LINE.fullmatch(line)
    if match is None:
        raise unreadable(place, line)
    fields = match["rest"].split()
    file = next((field.removeprefix("file=") for field in fields if field.startswith("file=")), None)
    counts = [_COUNT.fullmatch(field) for field in fields if "=" in field and not field.startswith("file=")]
    matches = [count for count in counts if count]
    if len(matches) < len(counts):
        raise unreadable(place, line)
    values = {one["name"]: int(one["count"]) for one in matches if one["name"]}
    return Mapping(
        start=int(match["start"], 16),
        policy=match["policy"],
        file=_ESCAPED.sub(lambda code: chr(int(code[1], 8)), file) if file else None,
        anon_pages=values.get("anon", 0),
        dirty_pages=values.get("dirty", 0),
        page_kb=values.get("kernelpagesize_kB", 4),
        pages=tuple((int(one["node"]), int(one["count"])) for one in matches if one["node"]),
    )
