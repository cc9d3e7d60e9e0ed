"""Programs that runs use, and their versions. A program is executed once for its version, until its file changes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Optional

from ..errors import HostFailure
from ..host.system import System

TOOLS = (
    "pgbench", "psql", "fio", "sysbench", "numactl", "numastat", "taskset", "unshare", "systemctl", "bpftrace", "stap",
    "perf", "strace",
)  # fmt: skip
ASK = {"numastat": "-V"}
PACKAGED = ("numactl",)  # reports its version only from 2.0.17 on
# 15.18, 2.38.1, 19devel; numastat has but a date.
VERSION = re.compile(r"\d+(\.\d+)+\w*|\b\d+(devel|beta\d+|rc\d+)|\b\d{8}\b")
PG_HOME = "/usr/lib/postgresql"


def tools(system: System) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {tool: {"path": path} for tool in TOOLS for path in [system.which(tool)] if path}
    if "numactl" in paths:
        paths["numactl"]["options"] = _options(system, paths["numactl"]["path"])
    return paths


def _options(system: System, path: str) -> list[str]:
    """Memory policies of newer numactls that this one offers, too: from the text of its usage, which it holds."""
    usage = system.text(path)
    return [option for option in ("--preferred-many", "--weighted-interleave") if option in usage]


class Versions:
    """Versions of programs, cached in `cache` by path, size, mtime and inode of their file.

    An unreadable cache is replaced; one that cannot be written is not used.
    """

    def __init__(self, system: System, cache: Optional[Path] = None) -> None:
        self._system, self._cache = system, cache
        # Wrappers choose by the running kernel what they start.
        self._release = system.text("/proc/sys/kernel/osrelease")
        self._known = self._load()
        self._current: dict[str, str] = {}

    def of(self, path: str) -> str:
        """Such as "15.18"; "" if the program does not report it. One that took too long is run again next time."""
        mark = self._mark(path)
        version = self._known.get(mark, self._current.get(mark))
        if version is None:
            version = self._ask(path)
        if version is not None:
            self._current[mark] = version
        return version or ""

    def keep(self) -> None:
        """Write the cache if a version was read. Programs that were not requested are removed from it."""
        if self._cache is None or self._current == self._known:
            return
        fresh = self._cache.with_suffix(".new")
        try:
            fresh.write_text(json.dumps(self._current))
            os.replace(fresh, self._cache)
        except OSError:
            fresh.unlink(missing_ok=True)

    def _load(self) -> dict[str, str]:
        try:
            known = json.loads(self._cache.read_text()) if self._cache else {}
        except (OSError, ValueError):
            return {}
        valid = isinstance(known, dict) and all(isinstance(value, str) for value in known.values())
        return known if valid else {}

    def _mark(self, path: str) -> str:
        """Changes whenever the program may: Debian's psql starts that of the newest server."""
        name = path.rpartition("/")[2]
        candidates = [f"{PG_HOME}/{major}/bin/{name}" for major in self._system.names(PG_HOME)]
        stats = [self._system.stat(file) for file in dict.fromkeys([path, *candidates])]
        shown = [f"{stat.size}.{stat.mtime_ns}.{stat.inode}" for stat in stats if stat]
        return " ".join([self._release, path, *shown])

    def _ask(self, path: str) -> Optional[str]:
        name = path.rpartition("/")[2]
        version = self._first([path, ASK.get(name, "--version")])
        return self._packaged(name) if version == "" and name in PACKAGED else version

    def _packaged(self, name: str) -> str:
        queries = {"dpkg-query": ["--show", "--showformat=${Version}"], "rpm": ["-q", "--qf", "%{VERSION}"]}
        commands = ([self._system.which(tool), *query, name] for tool, query in queries.items())
        return next(filter(None, (self._first(argv) for argv in commands if argv[0])), "")

    def _first(self, argv: list[str]) -> Optional[str]:
        """The first version in the output of a program, "" if there is none; None after the time limit."""
        try:
            identity = self._system.identity(argv[0])
            shown = self._system.run(argv, limit_s=5.0, **identity) if identity is not None else None
        except (HostFailure, OSError):
            return None
        if shown is None:
            return ""
        match = VERSION.search(shown.stdout + shown.stderr)
        return match.group(0) if match else ""
