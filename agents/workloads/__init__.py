"""The catalogue of workloads: one file per tool."""

from __future__ import annotations

from ..host.paths import Named
from .base import Context, Metric, Trace, Workload
from .command import Command
from .fio import Fio
from .pg_tests import PgTestFsync, PgTestTiming
from .pgbench import PgBench
from .sql import Sql
from .sysbench import Sysbench
from .wait import Wait

_ALL = (PgBench(), Fio(), PgTestFsync(), PgTestTiming(), Sysbench(), Sql(), Command(), Wait())
WORKLOADS: dict[str, Workload] = {workload.kind: workload for workload in _ALL}

__all__ = ["WORKLOADS", "Context", "Metric", "Named", "Trace", "Workload"]
