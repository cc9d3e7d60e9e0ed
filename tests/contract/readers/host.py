"""What a host says of itself: lscpu, cpuinfo, meminfo, numactl, numastat, numa_maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {}
