"""Databases of the tests: each worker copies a migrated one (embedded/temporary.py), and tests leave it empty.

Rows that a test rolls back stay in the files until a vacuum. If autovacuum comes while a test has its rows in an open
transaction, it counts none of them: the planner then expects one row in each table, and joins thousands by nested loops
until the next vacuum. So autovacuum is off, and each worker vacuums its database between two tests.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection
from django.db.backends.postgresql.operations import DatabaseOperations

from embedded.servers.postgres import MIGRATED

# What migrations fill, and flush fills again.
LEFT = {"django_content_type", "auth_permission"}


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Django still runs the migrations that the copy lacks."""
    connection.settings_dict["TEST"]["TEMPLATE"] = MIGRATED


@pytest.fixture(scope="session")
def django_db_setup(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():
        tables = [connection.ops.quote_name(name) for name in connection.introspection.table_names()]
        with connection.cursor() as cursor:
            cursor.execute("select oid::regclass::text from pg_class where relkind = 'r' and oid >= 16384")
            off = [f"alter table {name} set (autovacuum_enabled = off)" for (name,) in cursor.fetchall()]
            cursor.execute("; ".join(off))
    request.config.pluginmanager.register(Vacuum(tables, django_db_blocker))


class Vacuum:
    """Vacuums the tables between two tests, if the last time is `EVERY_S` ago."""

    EVERY_S = 20.0

    def __init__(self, tables: Sequence[str], blocker: Any) -> None:
        self.statement = f"vacuum (skip_locked) {', '.join(tables)}"
        self.blocker = blocker
        self.at = time.monotonic()

    def pytest_runtest_logstart(self) -> None:
        if time.monotonic() - self.at < self.EVERY_S or connection.in_atomic_block:
            return
        with self.blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(self.statement)
        self.at = time.monotonic()


def deletions(
    self: DatabaseOperations, style: Any, tables: Sequence[str], *, reset_sequences: bool = False, **options: Any
) -> list[str]:
    """SQL that empties tables of a few rows. TRUNCATE takes 20 times as long, because it gives each table and index a
    new file. Triggers and foreign keys do not act meanwhile."""
    if reset_sequences:
        return _truncation(self, style, tables, reset_sequences=reset_sequences, **options)
    emptied = [f"delete from {self.quote_name(table)}" for table in tables if table not in LEFT]
    return ["; ".join(["set session_replication_role = replica", *emptied, "reset session_replication_role"])]


_truncation = DatabaseOperations.sql_flush
DatabaseOperations.sql_flush = deletions  # type: ignore[assignment]
