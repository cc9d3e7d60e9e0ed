"""Network interfaces that lead out of the host."""

from __future__ import annotations

from typing import Any

from ..host.system import System
from .read import known, number

NET = "/sys/class/net"


def network(system: System) -> list[dict[str, Any]]:
    """Devices and their bonds; if there are none, as in a container, all interfaces except the loopback."""
    names = [name for name in system.names(NET) if name != "lo" and system.exists(f"{NET}/{name}/mtu")]
    real = [name for name in names if any(system.exists(f"{NET}/{name}/{mark}") for mark in ("device", "bonding"))]
    return [_interface(system, name) for name in real or names]


def _interface(system: System, name: str) -> dict[str, Any]:
    path = f"{NET}/{name}"
    driver = system.link(f"{path}/device/driver").rpartition("/")[2]
    return {
        "name": name,
        "state": system.text(f"{path}/operstate", "unknown"),
        **known([("mtu", number(system, f"{path}/mtu")), ("speed_mbit", number(system, f"{path}/speed"))]),
        **known([("driver", driver), ("node", number(system, f"{path}/device/numa_node"))]),
    }
