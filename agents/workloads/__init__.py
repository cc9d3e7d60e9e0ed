"""The catalogue of workloads: one file per tool."""

from __future__ import annotations

from .base import Context, Workload
from .pgbench import PgBench

WORKLOADS: dict[str, Workload] = {workload.kind: workload for workload in (PgBench(),)}

__all__ = ["WORKLOADS", "Context", "Workload"]
