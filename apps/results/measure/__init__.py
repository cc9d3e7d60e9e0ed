"""From the raw outputs of one step to its measurements: one file per kind. Pure: a better parser can re-read old runs.

Outputs are keyed by the agent's names for a step's files, such as pgbench's `stdout` and fio's `fio.json`.
"""

from __future__ import annotations

from collections.abc import Callable

from apps.errors import WorkloadError
from apps.results.measure.command import measure_command
from apps.results.measure.figures import Measurement, Options, Outputs
from apps.results.measure.fio import measure_fio
from apps.results.measure.pg_tests import measure_pg_test_fsync, measure_pg_test_timing
from apps.results.measure.pgbench import measure_pgbench
from apps.results.measure.sql import measure_sql
from apps.results.measure.sysbench import measure_sysbench
from apps.results.measure.table import measure_figures
from apps.results.measure.tracer import measure_tracer

__all__ = ["Measurement", "measure"]

MEASURE: dict[str, Callable[[Outputs, Options], list[Measurement]]] = {
    "pgbench": measure_pgbench,
    "fio": measure_fio,
    "figures": measure_figures,
    "pg_test_fsync": measure_pg_test_fsync,
    "pg_test_timing": measure_pg_test_timing,
    "sysbench": measure_sysbench,
    "sql": measure_sql,
    "command": measure_command,
}


def measure(kind: str, outputs: Outputs, options: Options | None = None) -> list[Measurement]:
    """The measurements of one step of a workload of this kind, which ran with these options.

    Raises WorkloadError when the tool was aborted or killed, and FormatError when its output cannot be read: figures of
    an incomplete run are not measurements.
    """
    if kind not in MEASURE:
        raise WorkloadError(kind, "its results cannot be read", hint=f"known are {', '.join(MEASURE)}")
    given = options or {}
    return [*MEASURE[kind](outputs, given), *measure_tracer(outputs, given)]
