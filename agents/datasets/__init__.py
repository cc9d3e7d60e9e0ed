"""The catalogue of what makes data sets: one file per kind."""

from __future__ import annotations

from .base import ABSENT, ENSURE, RESETS, STEP, Data, Step
from .pgbench import PgBenchData
from .sql import SqlData
from .tpcc import TpccData

DATASETS: dict[str, Data] = {data.kind: data for data in (PgBenchData(), SqlData(), TpccData())}

__all__ = ["ABSENT", "DATASETS", "ENSURE", "RESETS", "STEP", "Data", "Step"]
