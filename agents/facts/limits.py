"""Limits of the control groups that our processes are in: the tightest from ours up to the root."""

from __future__ import annotations

from typing import Any, Iterable, Optional

from ..host.cgroups import mounts
from ..host.system import System
from .read import NODES, known, online_cpus

UNLIMITED = 1 << 62  # v1 shows no limit as a number near 2^63


def limits(system: System) -> dict[str, Any]:
    """{} where nothing binds us. `cpu_quota` is in cpus."""
    groups = _groups(system)
    values = {
        "cpu_quota": _least(_quotas(system, groups)),
        "memory_max_kb": _kb(_least(_numbers(system, groups, "memory", "memory.max", "memory.limit_in_bytes"))),
        "memory_high_kb": _kb(_least(_numbers(system, groups, "memory", "memory.high", ""))),
        "pids_max": _least(_numbers(system, groups, "pids", "pids.max", "pids.max")),
        "cpuset_cpus": cpuset(system),
        "cpuset_mems": _nearest(system, groups, "cpuset.mems", system.text(f"{NODES}/has_memory")),
    }
    return known(values.items())


def cpuset(system: System) -> str:
    """The CPUs that our control groups allow; "" for all."""
    return _nearest(system, _groups(system), "cpuset.cpus", online_cpus(system))


def _groups(system: System) -> dict[str, list[str]]:
    """Controller -> directories from ours up to the root; "" is the one hierarchy of v2."""
    roots = mounts(system)
    groups = {}
    for line in system.text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in roots:
                groups[controller] = _up(*roots[controller], path)
    return groups


def _up(place: str, root: str, path: str) -> list[str]:
    inside = path[len(root) :] if root != "/" and path.startswith(root) else path
    parts = [part for part in inside.split("/") if part]
    return ["/".join([place, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def _numbers(
    system: System, groups: dict[str, list[str]], controller: str, v2: str, v1: str
) -> Iterable[Optional[float]]:
    files = [f"{group}/{v2}" for group in groups.get("", [])]
    files += [f"{group}/{v1}" for group in groups.get(controller, []) if v1]
    return [float(text) if text.isdigit() else None for text in map(system.text, files)]


def _quotas(system: System, groups: dict[str, list[str]]) -> Iterable[Optional[float]]:
    pairs = [system.text(f"{group}/cpu.max").split() for group in groups.get("", [])]
    for group in groups.get("cpu", []):
        pairs.append([system.text(f"{group}/{name}") for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")])
    return [int(pair[0]) / int(pair[1]) if len(pair) == 2 and all(map(str.isdigit, pair)) else None for pair in pairs]


def _least(values: Iterable[Optional[float]]) -> Optional[float]:
    bound = [value for value in values if value is not None and value < UNLIMITED]
    least = min(bound, default=None)
    return int(least) if least is not None and least == int(least) else least


def _kb(size: Optional[float]) -> Optional[int]:
    return None if size is None else int(size) // 1024


def _nearest(system: System, groups: dict[str, list[str]], name: str, every: str) -> str:
    """The cpuset in effect: that of the nearest group that has one; "" if it contains `every` one."""
    files = [f"{group}/{name}.effective" for group in groups.get("", [])]
    files += [f"{group}/{name}" for group in groups.get("cpuset", [])]
    nearest = next(filter(None, map(system.text, files)), "")
    return "" if nearest == every else nearest
