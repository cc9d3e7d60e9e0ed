"""The machine of the demo: its state before and after, and packages that could be added."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

OPTIONAL_TOOLS = ("fio", "numactl")
APT_TIMEOUT_S = 900
SYSCTLS = (
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.swappiness",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.overcommit_memory",
    "vm.zone_reclaim_mode",
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
)


def changeable_values() -> dict[str, str]:
    """Return values that a benchmark may change: sysctls, transparent huge pages, pools of huge pages. Absent ones are
    left out.

    They must be equal before and after a campaign."""
    files = {name: Path("/proc/sys") / name.replace(".", "/") for name in SYSCTLS}
    huge = Path("/sys/kernel/mm")
    files |= {f"transparent_hugepage.{name}": huge / "transparent_hugepage" / name for name in ("enabled", "defrag")}
    files |= {f"{pool.name}.nr_hugepages": pool / "nr_hugepages" for pool in sorted(huge.glob("hugepages/*"))}
    return {name: file.read_text().strip() for name, file in files.items() if file.exists()}


def describe(state: dict[str, str]) -> str:
    """Return one indented line per value."""
    width = max(map(len, state), default=0)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in state.items())


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return "name: before -> after" for every value that differs."""
    names = sorted(before.keys() | after.keys())
    return [f"{n}: {before.get(n)} -> {after.get(n)}" for n in names if before.get(n) != after.get(n)]


def offer_tools(state: Path) -> None:
    """Offer to install tools for more workloads, if there are root and apt. Asks once, and only on a terminal.

    Never installs without a confirmation and never fails: without fio, its workload is refused with a reason."""
    missing = [tool for tool in OPTIONAL_TOOLS if shutil.which(tool) is None]
    if not missing or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    by_hand = f"apt-get install --no-install-recommends {' '.join(missing)}"
    marker = state / "tools-offered"
    if marker.exists() or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(f"not installed: {', '.join(missing)}; more can be run after: {by_hand}")
        return
    marker.touch()
    if input(f"{' and '.join(missing)} would allow more settings. Run {by_hand}? [y/N] ").strip().lower() == "y":
        _install(missing)


def _install(packages: list[str]) -> None:
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-q"], ["install", "-y", "--no-install-recommends", *packages]):
        if subprocess.run([*apt, *arguments], env=env, timeout=APT_TIMEOUT_S, check=False).returncode:
            print(f"{' '.join([*apt, *arguments])} failed, see above; continuing without {' '.join(packages)}")
            return
