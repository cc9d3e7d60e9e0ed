"""Databases of the tests: the first worker migrates one, each takes a copy of it, and tests leave it empty."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.backends.postgresql.operations import DatabaseOperations
from pytest_django import DjangoDbBlocker

LOCK = 18
# What migrations fill, and flush fills again.
LEFT = {"django_content_type", "auth_permission"}


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        with django_db_blocker.unblock():
            connection.settings_dict["TEST"]["TEMPLATE"] = migrated()


def migrated() -> str:
    """The name of a database with all migrations; other workers wait until it exists."""
    name = f"{connection.settings_dict['NAME']}_migrated"
    with connection._nodb_cursor() as cursor:
        cursor.execute("select pg_advisory_lock(%s)", [LOCK])  # until this connection is closed
        cursor.execute("select count(*) from pg_database where datname = %s", [name])
        if not cursor.fetchone()[0]:
            cursor.execute(f'create database "{name}_new"')
            _migrate(f"{name}_new")
            cursor.execute(f'alter database "{name}_new" rename to "{name}"')
    return name


def _migrate(name: str) -> None:
    ours = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        call_command("migrate", verbosity=0, interactive=False, run_syncdb=True)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = ours


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
