"""Databases of the tests: each worker copies a migrated one (embedded/temporary.py), and tests leave it empty."""

from __future__ import annotations

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
