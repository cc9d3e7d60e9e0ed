"""For each setting a wish that changes something on this very machine, derived from what is there.

A setting that cannot be had here says why, and the reason is looked at: the day it no longer holds, a test fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.settings.base import current
from agents.system import System

SYSTEM = System()
THP = "/sys/kernel/mm/transparent_hugepage"


def another(path: str, *choices: str) -> str:
    """The first of the choices that a file of the kernel does not hold now."""
    now = current(SYSTEM, path)
    return next(choice for choice in choices if choice != now)


def transparent_huge_pages() -> dict[str, Any]:
    # `never` has the kernel lower vm.min_free_kbytes as well.
    return {
        "enabled": another(f"{THP}/enabled", "never", "madvise"),
        "defrag": another(f"{THP}/defrag", "defer", "never"),
    }


def last_cpu() -> str:
    return str(max(os.sched_getaffinity(0)))


# What to wish, by setting.
CASES: dict[str, Callable[[], Any]] = {
    "cpu_affinity": lambda: {"server": last_cpu(), "client": last_cpu()},
    "numa": lambda: {"policy": "membind", "nodes": "0"},
    "transparent_huge_pages": transparent_huge_pages,
    "huge_pages": lambda: {"use": "on"},
    "postgresql": lambda: {"shared_buffers": "16MB", "work_mem": "5MB"},
}


@dataclass(frozen=True)
class Impossible:
    """Why a setting cannot be had on a machine, and how that is seen."""

    reason: str
    holds: Callable[[], bool]


IMPOSSIBLE: dict[str, Impossible] = {}


def missing(pattern: str) -> Callable[[], bool]:
    return lambda: not any(Path("/").glob(pattern))
