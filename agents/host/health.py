"""Problems of an idle host, at low cost: free space, a restart that is due, temperature."""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence

from ..errors import HostFailure
from .system import System

THERMAL = "/sys/class/thermal"
RESTART = ("/run/reboot-required", "/var/run/reboot-required")  # of Debian and its like
FAILED = ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"]
SYSTEMD = "/run/systemd/system"
SYSTEMCTL_S = 5.0
SHOWN = 5


def read_health(system: System, paths: Sequence[str]) -> dict[str, Any]:
    """{"space": [{"path", "free_kb" or null}], "restart_due": bool, "failed_units": [name], "celsius": number or null,
    "wall": s}."""
    return {
        "space": [{"path": path, "free_kb": _free(system, path)} for path in paths],
        "restart_due": any(system.exists(path) for path in RESTART),
        "failed_units": _failed_units(system),
        "celsius": _hottest(system),
        "wall": system.wall(),
    }


def _free(system: System, path: str) -> Optional[int]:
    """Return the state of the file system that contains the path, or would contain it."""
    while path != "/" and not system.exists(path):
        path = os.path.dirname(path)
    space = system.space(path)
    return space[1] if space else None


def _failed_units(system: System) -> list[str]:
    if not system.exists(SYSTEMD):
        return []
    try:
        done = system.run(FAILED, limit_s=SYSTEMCTL_S)
    except HostFailure as failure:
        return [str(failure)]
    return [line.split()[0] for line in done.stdout.splitlines() if line.split()][:SHOWN]


def _hottest(system: System) -> Optional[float]:
    zones = [name for name in system.names(THERMAL) if name.startswith("thermal_zone")]
    texts = (system.text(f"{THERMAL}/{zone}/temp") for zone in zones)
    return max((int(text) / 1000 for text in texts if text.lstrip("-").isdigit()), default=None)
