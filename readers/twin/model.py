"""The input of a twin: schema and statistics of a production database, and its statements with their costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Column:
    """`type` as in CREATE TABLE. `base`, `type_schema`, `kind` and `category`: typname, typnamespace, typtype and
    typcategory of pg_type. `default`: identity, generated, sequence, other, or ""."""

    name: str
    type: str
    base: str
    type_schema: str
    kind: str
    category: str
    not_null: bool
    default: str
    labels: tuple[str, ...]

    @property
    def builtin(self) -> bool:
        return self.type_schema == "pg_catalog"


@dataclass(frozen=True)
class Table:
    schema: str
    name: str
    partitioned: bool
    rows: int
    pages: int
    bytes: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class IndexColumn:
    name: str | None
    descending: bool
    nulls_first: bool
    opclass: str | None


@dataclass(frozen=True)
class Index:
    """The first `keys` columns are its key. `expressions`, `partial`: whether it has them; their text is not
    captured."""

    schema: str
    table: str
    name: str
    method: str
    unique: bool
    primary: bool
    bytes: int
    expressions: bool
    partial: bool
    keys: int
    columns: tuple[IndexColumn, ...]


@dataclass(frozen=True)
class ForeignKey:
    schema: str
    table: str
    columns: tuple[str, ...]
    to_schema: str
    to_table: str
    to_columns: tuple[str, ...]
    on_delete: str


@dataclass(frozen=True)
class Statistics:
    """A row of pg_stats, with the values that the capture may contain."""

    schema: str
    table: str
    column: str
    null_frac: float
    avg_width: int
    n_distinct: float
    correlation: float | None
    secret: bool
    frequencies: tuple[float, ...]
    common_values: tuple[str, ...]
    bounds: tuple[str, ...]


@dataclass(frozen=True)
class Counts:
    """Counts of pg_stat_statements between the two snapshots."""

    calls: int = 0
    ms: float = 0.0
    rows: int = 0
    hit: int = 0
    read: int = 0
    temp_read: int = 0
    temp_written: int = 0
    wal_bytes: int = 0

    @property
    def blocks(self) -> int:
        """Shared blocks hit and read."""
        return self.hit + self.read


@dataclass(frozen=True)
class Statement:
    """`text` has only the first word if the text could hold values, and is "" if it was not read."""

    queryid: str
    text: str
    counts: Counts


@dataclass(frozen=True)
class Updates:
    """Updated rows of a table between the snapshots. `hot`: those whose new version is a heap-only tuple: it stayed on
    its page."""

    rows: int
    hot: int


@dataclass(frozen=True)
class Capture:
    """`settings`: those that the capture may contain, in the unit of pg_settings. `updates`: by schema and name of the
    table, if it has any."""

    database: str
    version: int
    bytes: int
    secret: tuple[str, ...]
    tables: tuple[Table, ...]
    indexes: tuple[Index, ...]
    foreign_keys: tuple[ForeignKey, ...]
    statistics: tuple[Statistics, ...]
    seconds: float
    was_reset: bool
    statements: tuple[Statement, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    updates: Mapping[tuple[str, str], Updates] = field(default_factory=dict)

    @cached_property
    def ms(self) -> float:
        """The execution time of all statements between the snapshots."""
        return sum(statement.counts.ms for statement in self.statements)

    def share(self, statement: Statement) -> float:
        """Return the statement's share of that time, 0 to 1."""
        return statement.counts.ms / self.ms if self.ms else 0.0
