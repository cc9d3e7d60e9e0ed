"""The catalogue of what makes data sets: one file per kind."""

from __future__ import annotations

from .base import ABSENT, ENSURE, RESETS, STEP, Data, Step
from .dump import DumpData
from .pgbench import PgBenchData
from .sql import SqlData
from .tpcc import TpccData

DATASETS: dict[str, Data] = {data.kind: data for data in (PgBenchData(), DumpData(), SqlData(), TpccData())}

__all__ = ["ABSENT", "DATASETS", "ENSURE", "RESETS", "STEP", "Data", "Step"]
