"""Convert the raw outputs of one step to its measurements; one file per kind. Pure, so that a later version can read
old runs again.

Outputs are keyed by the agent's names for the files of a step, such as `stdout` for pgbench and `fio.json` for fio."""

from __future__ import annotations

from collections.abc import Callable

from common.errors import WorkloadError
from readers.measure.command import measure_command
from readers.measure.figures import Measurement, Options, Outputs
from readers.measure.fio import measure_fio
from readers.measure.pg_tests import measure_pg_test_fsync, measure_pg_test_timing
from readers.measure.pgbench import measure_pgbench
from readers.measure.sql import measure_sql
from readers.measure.sysbench import measure_sysbench
from readers.measure.table import measure_figures
from readers.measure.tpcc import measure_tpcc
from readers.measure.tracer import measure_tracer

__all__ = ["Measurement", "measure"]

MEASURE: dict[str, Callable[[Outputs, Options], list[Measurement]]] = {
    "pgbench": measure_pgbench,
    "fio": measure_fio,
    "figures": measure_figures,
    "pg_test_fsync": measure_pg_test_fsync,
    "pg_test_timing": measure_pg_test_timing,
    "sysbench": measure_sysbench,
    "tpcc": measure_tpcc,
    "sql": measure_sql,
    "command": measure_command,
}


def measure(kind: str, outputs: Outputs, options: Options | None = None) -> list[Measurement]:
    """Return the measurements of one step of a workload of this kind, which ran with these options.

    Raises WorkloadError if the tool failed or was killed, because figures of an incomplete run are not measurements.
    Raises FormatError if an output cannot be read."""
    if kind not in MEASURE:
        raise WorkloadError(kind, "its results cannot be read", hint=f"supported: {', '.join(MEASURE)}")
    options = options or {}
    return [*MEASURE[kind](outputs, options), *measure_tracer(outputs, options)]
