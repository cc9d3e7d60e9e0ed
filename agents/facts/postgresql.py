"""PostgreSQL installations: directories with a server, where distributions put them and where we were told to look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterable

from ..system import System
from .tools import version

SERVER_TOOLS = ("postgres", "initdb", "psql", "pgbench", "pg_test_fsync", "pg_test_timing", "pg_basebackup")


def installations(system: System, given: Iterable[str]) -> list[dict[str, Any]]:
    return [_installation(system, path) for path in _bin_dirs(system, given)]


def _bin_dirs(system: System, given: Iterable[str]) -> list[str]:
    roots = [f"/usr/lib/postgresql/{name}/bin" for name in system.names("/usr/lib/postgresql")]
    roots += [f"/usr/{name}/bin" for name in system.names("/usr") if name.startswith("pgsql-")]
    on_path = system.which("postgres")
    candidates = [*given, *roots, "/usr/local/pgsql/bin", *([str(Path(on_path).parent)] if on_path else [])]
    usable = (path for path in candidates if system.exists(f"{path}/postgres"))
    return list(dict.fromkeys(os.path.realpath(path) for path in usable))


def _installation(system: System, path: str) -> dict[str, Any]:
    found = version(system, f"{path}/postgres")
    return {
        "bin_dir": path,
        "version": found,
        "major": int(found.split(".")[0] or 0) if found else 0,
        "tools": [tool for tool in SERVER_TOOLS if system.exists(f"{path}/{tool}")],
    }
