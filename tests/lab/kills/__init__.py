"""Runs in a guest that in_guest.py kills at the boundaries of their journal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab.machines.machine import Machine

ROOT = Path(__file__).resolve().parents[3]
BIN_DIR = "/usr/lib/postgresql/15/bin"
SOURCES = (
    *("agents", "tests/__init__.py", "tests/agents/__init__.py", "tests/agents/dying.py", "tests/servers/__init__.py"),
    *("tests/servers/snapshot.py", "tests/lab/__init__.py", "tests/lab/kills/in_guest.py"),
)
THERE = "/var/tmp/sources"
LIMIT_S = 3000


def kill_runs(
    vm: Machine, settings: dict[str, Any], *, every: int, bin_dir: str = BIN_DIR, prefix: str = ""
) -> dict[str, Any]:
    """The answer of in_guest.py for a run with these settings, on a private cluster unless `bin_dir` is ""."""
    archive = subprocess.run(
        ["tar", "cz", "--exclude=__pycache__", "-C", str(ROOT), *SOURCES], capture_output=True, check=True
    ).stdout
    vm.shell(f"sudo rm -rf {THERE} && mkdir {THERE} && tar xz -C {THERE}", stdin=archive)
    order = json.dumps({"settings": settings, "bin_dir": bin_dir, "every": every}).encode()
    command = f"cd {THERE} && sudo {prefix}python3 -m tests.lab.kills.in_guest"
    return dict(json.loads(vm.shell(command, stdin=order, limit_s=LIMIT_S)))


def check(answer: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Print the counts; fail if a run left a difference."""
    with capsys.disabled():
        counts = f"{answer['boundaries']} boundaries, {answer['kills']} kills, {len(answer['differences'])} differences"
        sys.stdout.write(f"\n{counts} ")
    assert answer["differences"] == {}
