"""The catalogue of settings, in the order in which they are applied; they are restored in reverse."""

from __future__ import annotations

from .base import Plan, Proof, Scene, Setting, Write
from .cpu_affinity import CpuAffinity
from .postgresql import PostgreSQL

SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        CpuAffinity(),
        PostgreSQL(),
    )
}

__all__ = ["SETTINGS", "Plan", "Proof", "Scene", "Setting", "Write"]
