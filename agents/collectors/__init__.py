"""The catalogue of collectors: one file per source of the host's own numbers."""

from __future__ import annotations

from .base import Collector
from .cpu import Cpu
from .disk import Disk
from .memory import Memory
from .numa import Numa

COLLECTORS: dict[str, type[Collector]] = {collector.name: collector for collector in (Cpu, Memory, Disk, Numa)}

__all__ = ["COLLECTORS", "Collector"]
