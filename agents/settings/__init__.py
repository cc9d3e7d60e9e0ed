"""The catalogue of settings, in the order in which they are applied; they are restored in reverse."""

from __future__ import annotations

from .base import Plan, Proof, Scene, Setting, Write
from .block_device import BlockDevice
from .cache import Cache
from .cgroup import Cgroup
from .cpu_affinity import CpuAffinity
from .cpu_power import CpuPower
from .huge_pages import HugePages
from .initdb import Initdb
from .kernel_command_line import KernelCommandLine
from .numa import Numa
from .postgresql import PostgreSQL
from .smt import Smt
from .sysctl import Sysctl
from .transparent_huge_pages import TransparentHugePages

SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        # First: a boot undoes all other settings, which are then planned with the CPUs that stay online.
        KernelCommandLine(),
        Smt(),
        CpuAffinity(),
        Numa(),
        CpuPower(),
        # Huge pages are requested before other settings change the state of memory; limits on overcommit follow when
        # the pages are taken.
        TransparentHugePages(),
        HugePages(),
        Initdb(),
        Cgroup(),
        Sysctl(),
        BlockDevice(),
        PostgreSQL(),
        Cache(),
    )
}

__all__ = ["SETTINGS", "Plan", "Proof", "Scene", "Setting", "Write"]
