"""More history than tests.rows.history writes in half an hour: its campaigns once more, each time some years earlier.

PostgreSQL copies the rows itself. Indexes that no constraint needs are dropped meanwhile, and built again afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

YEARS = 5  # between two copies; the campaigns of a million runs reach back four years
TIMES = ("created_at", "started_at", "ended_at", "ingested_at")
ID = "md5('{number} ' || old.{column})::uuid"
SOURCE = f"""select id from campaigns_campaign where state in ('finished', 'cancelled') and recipe = ''
and created_at > now() - interval '{YEARS} years'"""
COPIES = f"select extract(year from age(now(), min(created_at)))::int / {YEARS} from campaigns_campaign"
OF_SOURCE = {
    "campaigns_campaign": "old.id in (select id from source)",
    "campaigns_run": "old.campaign_id in (select id from source)",
    "results_measurement": "old.run_id in (select id from campaigns_run where campaign_id in (select id from source))",
}


def query(sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.fetchall() if cursor.description else []


def copy_until(runs: int, tell: Callable[[str], None] = print) -> None:
    """Copy all ended campaigns of a history until there are at least `runs` runs."""
    query(f"create temporary table source as {SOURCE}")
    query("analyze source")
    (present,), (number,) = query("select count(*) from campaigns_run")[0], query(COPIES)[0]
    began = time.monotonic()
    with without_indexes("campaigns_run", "results_measurement"):
        while present < runs:
            number += 1
            copied = copy(number)
            assert copied, "no campaign has ended that could be copied"
            present += copied
            tell(f"  {present} runs after {time.monotonic() - began:.0f} s")
    query("drop table source")


@transaction.atomic
def copy(number: int) -> int:
    """Copy the campaigns of the table `source`. Returns how many runs they have."""
    query("set local session_replication_role = replica")  # references were checked for the originals

    def new_id(column: str) -> str:
        return ID.format(number=number, column=column)

    insert("campaigns_campaign", number, {"id": new_id("id")})
    runs = insert("campaigns_run", number, {"id": new_id("id"), "campaign_id": new_id("campaign_id")})
    insert("results_measurement", number, {"run_id": new_id("run_id"), "id": "default"})
    return runs


def insert(table: str, number: int, new: Mapping[str, str]) -> int:
    """Copy the rows of a table that belong to the source, with other values where `new` has some."""
    names = [
        name
        for (name,) in query(
            "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped", table
        )
        if new.get(name) != "default"
    ]
    earlier = {name: f"old.{name} - interval '{YEARS * number} years'" for name in TIMES}
    values = [new.get(name) or earlier.get(name) or f'old."{name}"' for name in names]
    columns = ", ".join(f'"{name}"' for name in names)
    with connection.cursor() as cursor:
        cursor.execute(
            f"insert into {table} ({columns}) select {', '.join(values)} from {table} old where {OF_SOURCE[table]}"
        )
        return cursor.rowcount


@contextmanager
def without_indexes(*tables: str) -> Iterator[None]:
    """Tables without the indexes that no constraint needs."""
    indexes = query(
        "select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index"
        " where indrelid::regclass::text = any(%s)"
        " and not exists (select from pg_constraint where conindid = indexrelid)",
        list(tables),
    )
    for name, _ in indexes:
        query(f"drop index {name}")
    try:
        yield
    finally:
        for _, definition in indexes:
            query(definition)
