"""Figures per transaction: what collectors counted during a step, divided by the transactions of its load. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

CPU = "cpu_per_transaction"


@dataclass(frozen=True)
class PerTransaction:
    """One such figure. `columns`: a pattern for the declared names (<cpu>.busy) of the columns of `collector` whose
    growth is added up; one unit of a column is `factor` units of the figure. `better` is "lower", or "" for neither."""

    name: str
    unit: str
    better: str
    collector: str
    columns: str
    definition: str
    factor: float = 1.0

    def uses(self, column: str) -> bool:
        """Whether the growth of this column belongs to it."""
        return re.fullmatch(self.columns, column) is not None


# A share of one cpu in percent, for one second, is 10 ms of cpu time.
_MS = 10.0
_ALL = (
    PerTransaction(CPU, "ms", "lower", "processes", "cpu", "CPU time of PostgreSQL's processes", _MS),
    PerTransaction("host_cpu_per_transaction", "ms", "lower", "cpu", r"<cpu>\.busy", "CPU time of the whole host", _MS),
    PerTransaction(
        "wal_per_transaction", "B", "lower", "postgresql", r"pg_stat_wal\.wal_bytes", "WAL of the whole cluster"
    ),
    PerTransaction(
        "blocks_read_per_transaction",
        "blocks",
        "lower",
        "postgresql",
        r"pg_stat_database\.blks_read",
        "blocks that were not in shared buffers",
    ),
    PerTransaction(
        "blocks_hit_per_transaction",
        "blocks",
        "",
        "postgresql",
        r"pg_stat_database\.blks_hit",
        "blocks found in shared buffers",
    ),
    PerTransaction(
        "fsyncs_per_transaction",
        "fsyncs",
        "lower",
        "postgresql",
        r"pg_stat_wal\.wal_sync|pg_stat_io\..+\.fsyncs",
        "syncs of WAL; from PostgreSQL 16 also of data files",
    ),
    PerTransaction(
        "context_switches_per_transaction", "switches", "lower", "cpu", "ctxt", "context switches of the whole host"
    ),
    PerTransaction(
        "page_faults_per_transaction", "faults", "lower", "memory", "pgfault", "page faults of the whole host"
    ),
)
PER_TRANSACTION: dict[str, PerTransaction] = {figure.name: figure for figure in _ALL}
