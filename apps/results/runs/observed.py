"""The cost of collectors in a run, and the totals of PostgreSQL's counters. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents.collectors import COLLECTORS
from apps.campaigns.models import Run
from apps.results.runs import counters

MOST_ROWS = 20
# Columns of the tables of totals: (heading, names in the versions of PostgreSQL).
TABLE_COLUMNS = (
    ("heap hit", ("heap_blks_hit",)),
    ("heap read", ("heap_blks_read",)),
    ("index hit", ("idx_blks_hit",)),
    ("index read", ("idx_blks_read",)),
    ("seq scans", ("seq_scan",)),
    ("index scans", ("idx_scan",)),
    ("inserted", ("n_tup_ins",)),
    ("updated", ("n_tup_upd",)),
    ("of them HOT", ("n_tup_hot_upd",)),
    ("deleted", ("n_tup_del",)),
)
STATEMENT_COLUMNS = (
    ("calls", ("calls",)),
    ("rows", ("rows",)),
    ("ms", ("total_exec_time", "total_time")),
    ("blocks hit", ("shared_blks_hit",)),
    ("blocks read", ("shared_blks_read",)),
    ("blocks dirtied", ("shared_blks_dirtied",)),
    ("temp blocks", ("temp_blks_written",)),
    ("WAL bytes", ("wal_bytes",)),
)


@dataclass(frozen=True)
class Cost:
    """The cost of one collector during one step: CPU time on the host, and time that the agent waited."""

    step: str
    source: str
    samples: int
    seconds: float
    cpu_s: float
    apart_s: float
    wall_s: float

    @property
    def cpu_percent(self) -> float:
        """CPU time in percent of one CPU, including helper processes (psql and its backend)."""
        return 100 * (self.cpu_s + self.apart_s) / self.seconds if self.seconds else 0.0

    @property
    def cpu_ms_per_sample(self) -> float:
        return 1000 * (self.cpu_s + self.apart_s) / self.samples if self.samples else 0.0

    @property
    def wall_ms_per_sample(self) -> float:
        return 1000 * self.wall_s / self.samples if self.samples else 0.0


@dataclass(frozen=True)
class Totals:
    """Growth of PostgreSQL's counters over a step. Rows are lists of cells for `table_head` and so on."""

    step: str
    seconds: float
    views: list[tuple[str, float]]
    table_head: list[str]
    tables: list[list[Any]]
    statement_head: list[str]
    statements: list[list[Any]]


def costs_of(run: Run) -> list[Cost]:
    """Return the cost by step and collector, in the order of the catalogue, with the sum of each step as source
    `all`."""
    steps = run.event_log.filter(kind="measured").order_by("seq").values_list("data", flat=True)
    return [cost for step in steps for cost in _of_step(step)]


def _of_step(step: dict[str, Any]) -> list[Cost]:
    seconds, order = step["ended"] - step["began"], list(COLLECTORS)
    named = sorted(step["costs"], key=lambda name: order.index(name) if name in order else len(order))
    rows = [Cost(step["step"], name, seconds=seconds, **step["costs"][name]) for name in named]
    parts = ("cpu_s", "apart_s", "wall_s")
    whole = {part: sum(getattr(row, part) for row in rows) for part in parts}
    samples = max((row.samples for row in rows), default=0)
    return [*rows, Cost(step["step"], "all", samples=samples, seconds=seconds, **whole)] if rows else []


def totals_of(run: Run) -> list[Totals]:
    """Return the totals of every step whose PostgreSQL collector completed."""
    files = run.artefacts.filter(path__endswith=f"/{counters.FILE}").exclude(content=None).order_by("path")
    return [_totals(file.path.split("/")[1], counted) for file in files if (counted := counters.read(file))]


def _totals(step: str, counted: dict[str, Any]) -> Totals:
    table_head, tables = _table(counted["tables"], "table", TABLE_COLUMNS)
    statement_head, statements = _table(counted["statements"], "query", STATEMENT_COLUMNS)
    views = sorted(counted["views"].items())
    return Totals(step, counted["seconds"], views, table_head, tables, statement_head, statements)


def _table(
    rows: list[dict[str, Any]], subject: str, headings: Iterable[tuple[str, tuple[str, ...]]]
) -> tuple[list[str], list[list[Any]]]:
    """Return a heading and the first rows, with the columns in which any row has a value."""
    present = [(heading, name) for heading, names in headings for name in names if any(name in row for row in rows)]
    cells = [[row[subject], *(row.get(name, 0) for _, name in present)] for row in rows[:MOST_ROWS]]
    return [subject, *(heading for heading, _ in present)], cells
