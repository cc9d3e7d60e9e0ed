"""CPU time and memory of processes by their purpose, from the kernel's accounting."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from embedded import processes

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Share:
    """Cpu seconds so far, and memory now in MB: each page shared by its sharers (Pss), and what one has alone."""

    cpu_s: float = 0.0
    pss_mb: float = 0.0
    count: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.cpu_s + other.cpu_s, self.pss_mb + other.pss_mb, self.count + other.count)


def shares(roots: Mapping[str, int], marks: Mapping[str, str]) -> dict[str, Share]:
    """Part -> what its processes have cost: those below `roots` {part: pid}, and those whose command line or name
    holds a mark {mark: part}, which goes first."""
    shares_by_part: dict[str, Share] = defaultdict(Share)
    part_of = {pid: part for part, root in roots.items() for pid in _tree(root)}
    for process in processes.every():
        part = _marked(process.pid, marks) or part_of.get(process.pid)
        if part:
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                shares_by_part[part] += Share(_cpu_s(process.pid), _pss_mb(process.pid), 1)
    return shares_by_part


def _tree(root: int) -> list[int]:
    return [root, *(process.pid for process in processes.descendants(root))]


def _marked(pid: int, marks: Mapping[str, str]) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        command = Path(f"/proc/{pid}/comm").read_text() + Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        return next((part for mark, part in marks.items() if mark in command), "")
    return ""


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)
