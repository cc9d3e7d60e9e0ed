"""The catalogue of workloads: one file per tool."""

from __future__ import annotations

from .base import Context, Metric, Named, Trace, Workload
from .fio import Fio
from .pg_tests import PgTestFsync, PgTestTiming
from .pgbench import PgBench
from .sql import Sql
from .wait import Wait

WORKLOADS: dict[str, Workload] = {
    workload.kind: workload for workload in (PgBench(), Fio(), PgTestFsync(), PgTestTiming(), Sql(), Wait())
}

__all__ = ["WORKLOADS", "Context", "Metric", "Named", "Trace", "Workload"]
