"""Rows that many tests need: they are made once in a process, then copied into the transaction of each test."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from django.core.cache import cache
from django.db import connection, transaction

from tests import populate

# Ages of runs and contacts are counted from when the rows were made.
OLDEST_S = 60.0
COLUMNS = """
    select table_name, string_agg(quote_ident(column_name), ', ' order by ordinal_position)
    from information_schema.columns natural join information_schema.tables
    where table_schema = 'public' and table_type = 'BASE TABLE' and is_generated = 'NEVER' group by 1
"""


@dataclass
class Rows:
    """What a function returned, pickled, and what it added to each table, as COPY writes it."""

    made: bytes
    by_table: dict[str, bytes]
    at: float = field(default_factory=time.monotonic)


T = TypeVar("T")
_rows: dict[Callable[[], Any], Rows] = {}


def team() -> dict[str, Any]:
    """What populate.team() returns, as `once` has it."""
    return once(populate.team)


def once(make: Callable[[], T]) -> T:
    """What `make` returns, with the rows that it adds. The database has no rows yet but those of the migrations."""
    rows = _rows.get(make)
    if rows is None or time.monotonic() - rows.at > OLDEST_S:
        before = _copied()
        made = make()
        _rows[make] = Rows(
            pickle.dumps(made), {table: _added(before, table, data) for table, data in _copied().items()}
        )
        return made
    with transaction.atomic(), connection.cursor() as cursor:
        for table, data in rows.by_table.items():
            if data:
                with cursor.copy(f"copy {table} from stdin") as copy:
                    copy.write(data)
    cache.clear()  # holds parts of pages of the same rows, drawn for an earlier test
    return cast(T, pickle.loads(rows.made))


def _copied() -> dict[str, bytes]:
    """{table (columns): its rows}. Foreign keys are checked at the end of a transaction, so any order will do."""
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        for name, columns in cursor.fetchall():
            with cursor.copy(f"copy {name} ({columns}) to stdout") as copy:
                found[f"{name} ({columns})"] = b"".join(map(bytes, copy))
    return found


def _added(before: dict[str, bytes], table: str, after: bytes) -> bytes:
    assert after.startswith(before[table]), f"{table}: a row of the migrations was changed"
    return after[len(before[table]) :]
