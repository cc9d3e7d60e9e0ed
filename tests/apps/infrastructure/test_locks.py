"""Locks of migrations: on all tables at once, with an error that says what to do if these are always in use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from apps.infrastructure import locks

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def reader() -> Iterator[Any]:
    """The cursor of another connection, in a transaction that has read the table of hosts."""
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute("select count(*) from hosts_host")
        yield cursor
    other.close()


def lock() -> set[str]:
    """Lock two tables. Returns those that were locked."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(locks.exclusive("campaigns_run", "hosts_host"))
        cursor.execute(
            "select relation::regclass::text from pg_locks"
            " where mode = 'AccessExclusiveLock' and pid = pg_backend_pid()"
        )
        return {name for (name,) in cursor.fetchall()}


def test_all_tables_are_locked_as_soon_as_none_is_in_use(reader: Any) -> None:
    ending = threading.Timer(1.0, reader.execute, ["commit"])
    ending.start()

    assert lock() == {"campaigns_run", "hosts_host"}
    ending.join()


def test_tables_that_are_always_in_use_are_named_with_the_next_step(
    reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "ATTEMPTS", 2)

    with pytest.raises(DatabaseError, match=r"campaigns_run, hosts_host were in use .* end long transactions"):
        lock()
