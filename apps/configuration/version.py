"""The version of this server, from pyproject.toml, and which clients are compatible."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

NUMBER = re.compile(r"(\d+)\.(\d+)\.(\d+)\Z")
GIT_S = 10


def read_version(checkout: Path) -> str:
    """Return MAJOR.MINOR.PATCH."""
    return str(tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"])


def read_commit(checkout: Path, commit: str) -> str:
    """Return the first 12 digits of `commit`, or else of the commit that is checked out; "" if unknown."""
    if commit or not (checkout / ".git").exists():
        return commit[:12]
    argv = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def series(version: str) -> str:
    """Return the part that compatible versions share: MAJOR, or 0.MINOR before 1.0; "" for an invalid version."""
    match = NUMBER.match(version)
    if match is None:
        return ""
    return f"0.{match[2]}" if match[1] == "0" else match[1]


def fit(client: str, server: str) -> bool:
    return series(client) == series(server) != ""
