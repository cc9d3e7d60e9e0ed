"""Programs that runs use, and what version of them is here."""

from __future__ import annotations

import re
from typing import Any

from ..errors import HostFailure
from ..system import System

TOOLS = ("pgbench", "psql", "fio", "numactl", "numastat", "taskset", "unshare", "systemctl", "perf")


def tools(system: System) -> dict[str, dict[str, Any]]:
    return {tool: {"path": path} for tool in TOOLS for path in [system.which(tool)] if path}


def version(system: System, path: str) -> str:
    try:
        shown = system.run([path, "--version"], limit_s=5.0)
    except HostFailure:
        return ""
    found = re.search(r"\d+(\.\d+)+\w*", shown.stdout + shown.stderr)
    return found.group(0) if found else ""
