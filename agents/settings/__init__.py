"""The catalogue of settings, in the order in which they are applied; they are restored in reverse."""

from __future__ import annotations

from .base import Plan, Proof, Scene, Setting, Write
from .cpu_affinity import CpuAffinity
from .huge_pages import HugePages
from .initdb import Initdb
from .numa import Numa
from .postgresql import PostgreSQL
from .transparent_huge_pages import TransparentHugePages

SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        CpuAffinity(),
        Numa(),
        TransparentHugePages(),
        HugePages(),
        Initdb(),
        PostgreSQL(),
    )
}

__all__ = ["SETTINGS", "Plan", "Proof", "Scene", "Setting", "Write"]
