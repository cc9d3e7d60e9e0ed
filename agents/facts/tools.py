"""Programs that runs use, and what version of them is here."""

from __future__ import annotations

import re
from typing import Any

from ..errors import HostFailure
from ..system import System

TOOLS = ("pgbench", "psql", "fio", "numactl", "numastat", "taskset", "unshare", "systemctl", "perf")


def tools(system: System) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {tool: {"path": path} for tool in TOOLS for path in [system.which(tool)] if path}
    if "numactl" in found:
        found["numactl"]["options"] = _options(system, found["numactl"]["path"])
    return found


def _options(system: System, path: str) -> list[str]:
    """Memory policies of newer numactls that this one offers, too: from the text of its usage, which it holds."""
    usage = system.text(path)
    return [option for option in ("--preferred-many", "--weighted-interleave") if option in usage]


def version(system: System, path: str) -> str:
    try:
        shown = system.run([path, "--version"], limit_s=5.0)
    except HostFailure:
        return ""
    found = re.search(r"\d+(\.\d+)+\w*", shown.stdout + shown.stderr)
    return found.group(0) if found else ""
