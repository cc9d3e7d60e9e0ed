"""PostgreSQL installations: directories with a server, where distributions install them, and the given ones."""

from __future__ import annotations

import os
import re
from typing import Any, Iterable

from ..host.system import System
from .tools import PG_HOME, Versions

SERVER_TOOLS = (
    "postgres", "initdb", "pg_ctl", "psql", "pgbench", "pg_test_fsync", "pg_test_timing", "pg_basebackup",
)  # fmt: skip


def installations(system: System, versions: Versions, bin_dirs: Iterable[str]) -> list[dict[str, Any]]:
    return [_installation(system, versions, path) for path in _bin_dirs(system, bin_dirs)]


def _bin_dirs(system: System, bin_dirs: Iterable[str]) -> list[str]:
    roots = [f"{PG_HOME}/{name}/bin" for name in system.names(PG_HOME)]
    roots += [f"/usr/{name}/bin" for name in system.names("/usr") if name.startswith("pgsql-")]
    on_path = system.which("postgres")
    candidates = [*bin_dirs, *roots, "/usr/local/pgsql/bin", *([os.path.dirname(on_path)] if on_path else [])]
    usable = (path for path in candidates if system.exists(f"{path}/postgres"))
    return list(dict.fromkeys(os.path.realpath(path) for path in usable))


def _installation(system: System, versions: Versions, path: str) -> dict[str, Any]:
    version = versions.of(f"{path}/postgres")
    return {
        "bin_dir": path,
        "version": version,
        "major": major(version),
        "tools": [tool for tool in SERVER_TOOLS if system.exists(f"{path}/{tool}")],
    }


def major(version: str) -> int:
    """ "15.18" -> 15, "9.6" -> 9, "" -> 0."""
    match = re.match(r"[0-9]{1,3}(?![0-9])", version)
    return int(match.group(0)) if match else 0
