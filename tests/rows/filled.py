"""Rows that many tests need: one worker creates them, and each test gets a copy in its transaction."""

from __future__ import annotations

import fcntl
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from django.conf import settings
from django.core.cache import cache
from django.db import connection, transaction

from tests.rows import populate

# Ages of runs and contacts are counted from when the rows were made.
OLDEST_S = 60.0
# Of every table; rows in partitions are rows of the whole.
COLUMNS = """
    select relname, string_agg(quote_ident(attname), ', ' order by attnum)
    from pg_class join pg_attribute on attrelid = pg_class.oid
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
    and attnum > 0 and not attisdropped and attgenerated = '' group by 1
"""


@dataclass
class Rows:
    """What a function returned, pickled, and what it added to each table, as COPY writes it."""

    returned: bytes
    by_table: dict[str, bytes]
    sequences: dict[str, int]
    at: float = field(default_factory=time.monotonic)

    @property
    def are_recent(self) -> bool:
        """By a clock that all processes of a machine share."""
        return time.monotonic() - self.at < OLDEST_S


T = TypeVar("T")
_rows: dict[Callable[[], Any], Rows] = {}


def team() -> dict[str, Any]:
    """What populate.team() returns, as `once` has it."""
    return once(populate.team)


def once(make: Callable[[], T]) -> T:
    """What `make` returns, with the rows that it adds. The database has no rows yet but those of the migrations."""
    rows = _rows.get(make)
    if rows is None or not rows.are_recent:
        with _shared(make) as file:
            content = file.read_bytes() if file.stat().st_size else b""
            rows = pickle.loads(content) if content else None
            if rows is None or not rows.are_recent:
                made, _rows[make] = _make(make)
                file.write_bytes(pickle.dumps(_rows[make]))
                return made
        _rows[make] = rows
        _advance(rows.sequences)
    _copy(rows)
    return cast(T, pickle.loads(rows.returned))


@contextmanager
def _shared(make: Callable[[], Any]) -> Iterator[Path]:
    """The file in which the workers of a session find the rows that one of them has made; the others wait meanwhile."""
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    path = Path(settings.STATE_DIR) / f"rows-{session}-{make.__module__}.{make.__qualname__}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path


def _make(make: Callable[[], T]) -> tuple[T, Rows]:
    before = _copied()
    made = make()
    added = {table: _added(before, table, data) for table, data in _copied().items()}
    with connection.cursor() as cursor:
        cursor.execute("select sequencename, last_value from pg_sequences where last_value is not null")
        return made, Rows(pickle.dumps(made), added, dict(cursor.fetchall()))


def _copy(rows: Rows) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for table, data in rows.by_table.items():
            if data:
                with cursor.copy(f"copy {table} from stdin") as copy:
                    copy.write(data)
    cache.clear()  # holds parts of pages of the same rows, drawn for an earlier test


def _advance(sequences: dict[str, int]) -> None:
    """Rows of another worker have the numbers of its sequences: those of this database continue after them."""
    with connection.cursor() as cursor:
        for name, last in sequences.items():
            cursor.execute(
                "select setval(%s, greatest(last_value, %s)) from pg_sequences where sequencename = %s",
                [f'"{name}"', last, name],
            )


def _copied() -> dict[str, bytes]:
    """{table (columns): its rows}. Foreign keys are checked at the end of a transaction, so any order will do."""
    tables = {}
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        for name, columns in cursor.fetchall():
            # Not "copy name": that refuses a table with partitions.
            with cursor.copy(f"copy (select {columns} from {name}) to stdout") as copy:
                tables[f"{name} ({columns})"] = b"".join(map(bytes, copy))
    return tables


def _added(before: dict[str, bytes], table: str, after: bytes) -> bytes:
    assert after.startswith(before[table]), f"{table}: a row of the migrations was changed"
    return after[len(before[table]) :]
