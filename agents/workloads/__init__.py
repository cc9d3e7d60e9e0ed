"""The catalogue of workloads: one file per tool."""

from __future__ import annotations

from ..host.paths import Named
from ..wire.columns import Columns
from .base import Context, Metric, Trace, Workload
from .command import Command
from .fio import Fio
from .pg_tests import PgTestFsync, PgTestTiming
from .pgbench import PgBench
from .sql import Sql
from .sysbench import Sysbench
from .tpcc.workload import Tpcc
from .wait import Wait

_ALL = (PgBench(), Fio(), PgTestFsync(), PgTestTiming(), Sysbench(), Tpcc(), Sql(), Command(), Wait())
WORKLOADS: dict[str, Workload] = {workload.kind: workload for workload in _ALL}
# Per-second samples of load generators, in the order of the catalogue: source -> its columns.
SAMPLES: dict[str, Columns] = {source: columns for workload in _ALL for source, columns in workload.samples.items()}
# Throughput of load generators: kind, which is also the source of their samples -> the columns that add up to it.
RATES: dict[str, tuple[str, ...]] = {workload.kind: workload.rates for workload in _ALL if workload.rates}

__all__ = ["RATES", "SAMPLES", "WORKLOADS", "Context", "Metric", "Named", "Trace", "Workload"]
