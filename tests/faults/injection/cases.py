"""For each setting a request that changes a value of this machine, derived from its facts.

A setting that this machine does not support has a reason. If the reason no longer applies, a test fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.host.sysctls import BY_NAME, KNOBS, Knob, nested
from agents.host.system import System
from agents.settings.base import current

SYSTEM = System()
THP = "/sys/kernel/mm/transparent_hugepage"
CPUFREQ = "/sys/devices/system/cpu/cpu0/cpufreq"
# Some of each kind: a number, one that clears another, a list, a word, a flag.
SYSCTLS = (
    "vm.swappiness", "vm.dirty_background_bytes", "vm.dirty_bytes", "vm.min_free_kbytes", "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_autocorking", "net.ipv4.tcp_congestion_control",
)  # fmt: skip


def another(path: str, *choices: str) -> str:
    """The first of the choices that a file of the kernel does not hold now."""
    now = current(SYSTEM, path)
    return next(choice for choice in choices if choice != now)


def last_cpu() -> str:
    return str(max(os.sched_getaffinity(0)))


def transparent_huge_pages(device: str) -> dict[str, Any]:
    # With `never` the kernel lowers vm.min_free_kbytes as well.
    enabled = another(f"{THP}/enabled", "never", "madvise")
    return {"enabled": enabled, "defrag": another(f"{THP}/defrag", "defer", "never")}


def cpu_power(device: str) -> dict[str, Any]:
    governors = SYSTEM.text(f"{CPUFREQ}/scaling_available_governors").split()
    found = {"governor": another(f"{CPUFREQ}/scaling_governor", *governors)} if len(governors) > 1 else {}
    return {"latency_us": 57, **found}


def sysctl(*names: str) -> Callable[[str], dict[str, Any]]:
    return lambda device: nested({name: other_value(BY_NAME[name]) for name in names})


def all_sysctls() -> list[str]:
    """Every sysctl of the list that this kernel has and that has another value; of two rivals the one that clears. The
    words of default_qdisc are modules, which need not be there."""
    known = (knob for knob in KNOBS if knob.name != "net.core.default_qdisc" and SYSTEM.exists(knob.path))
    there = [knob for knob in known if other_value(knob) is not None]
    unset = {knob.rival for knob in there if current(SYSTEM, knob.path) == "0"}
    return [knob.name for knob in there if knob.name not in unset]


def other_value(knob: Knob) -> Any:
    """A valid value near the present one, or None where there is no other."""
    now = current(SYSTEM, knob.path)
    if knob.choices or knob.choices_in:
        choices = knob.choices or current(SYSTEM, "/proc/sys/" + knob.choices_in.replace(".", "/")).split()
        return next((choice for choice in choices if choice != now), None)
    if knob.numbers > 1:
        least, *rest = now.split()
        return " ".join([str(int(least) * 2), *(str(int(number) * 2) for number in rest[:-1]), rest[-1]])
    if knob.name.endswith("_bytes"):
        return {"vm.dirty_background_bytes": 1 << 27, "vm.dirty_bytes": 1 << 28}.get(knob.name)
    return next(value for value in (int(now) + 1, int(now) - 1, knob.low, knob.high) if knob.low <= value <= knob.high)


def block_device(device: str) -> dict[str, Any]:
    queue = f"/sys/block/{device}/queue"
    return {
        device: {
            # Another scheduler takes the queue's length and parameters with it.
            "scheduler": another(f"{queue}/scheduler", "mq-deadline", "none"),
            "nr_requests": int(another(f"{queue}/nr_requests", "64", "96")),
            "read_ahead_kb": int(another(f"{queue}/read_ahead_kb", "256", "512")),
            "rq_affinity": int(another(f"{queue}/rq_affinity", "2", "0")),
            "nomerges": int(another(f"{queue}/nomerges", "1", "0")),
        }
    }


# The request by setting, from the name of an unused block device.
CASES: dict[str, Callable[[str], Any]] = {
    "cpu_affinity": lambda device: {"server": last_cpu(), "client": last_cpu()},
    "numa": lambda device: {"policy": "membind", "nodes": "0"},
    "cpu_power": cpu_power,
    "transparent_huge_pages": transparent_huge_pages,
    "huge_pages": lambda device: {"use": "on"},
    "initdb": lambda device: {"data_checksums": False, "wal_segment_size": 1},
    "sysctl": sysctl(*SYSCTLS),
    "block_device": block_device,
    "postgresql": lambda device: {"shared_buffers": "16MB", "work_mem": "5MB"},
    "cache": lambda device: {"state": "cold"},
}


@dataclass(frozen=True)
class Impossible:
    """Why a setting cannot be had on a machine, and how that is seen."""

    reason: str
    holds: Callable[[], bool]


IMPOSSIBLE: dict[str, Impossible] = {}
# Settings that few machines can have; their runs are killed at every boundary on virtual machines, by these tests.
IN_LAB = {"cgroup": "tests/lab/settings/test_control_group.py", "smt": "tests/lab/settings/test_smt.py"}
# Settings that restart the host; their runs are killed at every boundary of three boots, on a simulated machine.
ACROSS_BOOTS = {"kernel_command_line": "tests/agents/booting.py"}
