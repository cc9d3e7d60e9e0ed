"""The version of this server, and which clients fit it. The version is written in pyproject.toml only."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

NUMBER = re.compile(r"(\d+)\.(\d+)\.(\d+)\Z")
GIT_S = 10


def read_version(checkout: Path) -> str:
    """MAJOR.MINOR.PATCH."""
    return str(tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"])


def read_commit(checkout: Path, given: str) -> str:
    """The first 12 digits of `given`, or else of the commit that is checked out; "" where nobody knows."""
    if given or not (checkout / ".git").exists():
        return given[:12]
    argv = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def series(version: str) -> str:
    """What must be equal for two versions to fit: MAJOR, or MAJOR.MINOR before 1.0; "" where it is no version."""
    found = NUMBER.match(version)
    if found is None:
        return ""
    return f"0.{found[2]}" if found[1] == "0" else found[1]


def fit(client: str, server: str) -> bool:
    return series(client) == series(server) != ""
