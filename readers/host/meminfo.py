"""Parse /proc/meminfo, or some of its lines, such as those of huge pages.

Source: meminfo_proc_show() in the kernel's fs/proc/meminfo.c and hugetlb_report_meminfo() in mm/hugetlb.c."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import FormatError
from readers.text import INT, shown, unreadable, whole_lines

WHERE = "meminfo"


@dataclass(frozen=True)
class HugePages:
    """The pool of huge pages of the default size. `free` includes `reserved` pages; `surplus` pages exceed the
    configured number."""

    total: int
    free: int
    reserved: int
    surplus: int
    page_kb: int

    @property
    def in_use(self) -> int:
        return self.total - self.free


@dataclass(frozen=True)
class Meminfo:
    """`kb` and `counts`: values by the kernel's names. `cut`: the last line was incomplete and is left out."""

    kb: Mapping[str, int]
    counts: Mapping[str, int]
    cut: bool

    @property
    def huge_pages(self) -> HugePages | None:
        """The pool of huge pages; None if one of its lines is missing, as in a kernel without hugetlb."""
        names = ("HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp")
        page_kb = self.kb.get("Hugepagesize")
        figures = [self.counts[name] for name in names if name in self.counts]
        if page_kb is None or len(figures) < len(names):
            return None
        total, free, reserved, surplus = figures
        return HugePages(total, free, reserved, surplus, page_kb)


_LINE = re.compile(rf"(?P<name>[A-Za-z0-9_()]{{1,40}}): {{1,40}}(?P<value>{INT})(?P<kb> kB)?")


def parse_meminfo(raw: bytes) -> Meminfo:
    """Parse the lines that exist. Raises FormatError if there are none, and for a line that the kernel does not
    write."""
    lines, cut = whole_lines(raw, WHERE)
    kb: dict[str, int] = {}
    counts: dict[str, int] = {}
    for place, line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise unreadable(place, line)
        figures = kb if match["kb"] else counts
        if match["name"] in figures:
            raise FormatError(place, f"{shown(match['name'])} appears twice", hint="give one reading at a time")
        figures[match["name"]] = int(match["value"])
    if not kb and not counts:
        raise FormatError(WHERE, "the file contains no figure", hint="give /proc/meminfo")
    return Meminfo(kb, counts, cut)
