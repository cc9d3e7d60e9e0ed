"""The rows of a twin resemble those of production: skew, keys of several columns, and room in pages."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from django.db import connection

from apps.campaigns.twins.schema import schema
from readers.twin.capture import read_capture
from readers.twin.model import Capture, ForeignKey, Statistics, Updates
from tests.apps.campaigns.library.test_twin_data_sets import (
    CHILDREN,
    ID,
    PARENT,
    RAW,
    column,
    index,
    load,
    parts,
    primary_key,
    reference,
    statistics,
    table,
    twin_of,
)

TENANT = column("tenant", "integer", "int4")


@pytest.fixture(scope="module")
def capture() -> Capture:
    return read_capture(RAW)


def one(sql: str) -> tuple[float, ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(map(float, cursor.fetchone()))


def test_rows_per_key_differ_as_the_bounds_of_the_histogram_do(db: None, capture: Capture) -> None:
    bounds = ("1", "11", "101", "1001")  # a third of the rows have one of ten values
    load(
        twin_of(
            capture,
            parts(
                table("parents", 1000, ID),
                table("children", 9000, ID, PARENT),
                indexes=[primary_key("parents", "id"), primary_key("children", "id")],
                foreign_keys=[reference("children", "parents")],
                statistics=[statistics("children", "parent", 1000, bounds=bounds)],
            ),
        )
    )

    (largest, parents) = one(
        "select max(count), count(*) from (select count(*) from children group by parent) by_parent"
    )
    assert largest == pytest.approx(300, rel=0.15) and parents == pytest.approx(1000, rel=0.05)


def tenants(*foreign_keys: ForeignKey) -> dict[str, list[object]]:
    """Projects and tasks of tenants, of which one has half of them."""
    task = (TENANT, ID, column("project", "integer", "int4"), column("owner", "integer", "int4"))
    frequencies = (0.5, *(0.5 / 49,) * 49)

    def skewed(name: str) -> Statistics:
        return statistics(name, "tenant", 50, frequencies=frequencies)

    return parts(
        table("projects", 500, TENANT, column("id", "integer", "int4")),
        table("members", 300, TENANT, column("id", "integer", "int4")),
        table("tasks", 8000, *task),
        indexes=[primary_key(each, "tenant", "id") for each in ("projects", "members", "tasks")],
        foreign_keys=list(foreign_keys),
        statistics=[
            *map(skewed, ("projects", "members", "tasks")),
            statistics("projects", "id", 250),
            statistics("members", "id", 150),
            statistics("tasks", "id", 4000),
        ],
    )


def test_rows_with_a_foreign_key_of_several_columns_refer_to_existing_rows(db: None, capture: Capture) -> None:
    keys = [
        ForeignKey("public", "tasks", ("tenant", name), "public", parent, ("tenant", "id"), "a")
        for name, parent in (("project", "projects"), ("owner", "members"))
    ]
    twin = twin_of(capture, tenants(*keys))

    load(twin)

    assert twin.foreign_keys == keys and not twin.missing
    assert one("select count(*) from tasks t join projects p on p.tenant = t.tenant and p.id = t.project") == (8000,)
    assert one("select count(*) from tasks t join members m on m.tenant = t.tenant and m.id = t.owner") == (8000,)
    assert one("select max(count) from (select count(*) from tasks group by tenant) t") == (pytest.approx(4000, 0.01),)


# In production, half of the updated rows stayed on one of 1000 pages. If only few were updated, as many pages had room.
# Else fewer pages had room at first.
@pytest.mark.parametrize(
    ("updated_rows", "with_room"),
    [(10, 0.5), (1000, 1 - 0.5 / (1 - math.exp(-1))), (10_000, 1 - 0.5 / (1 - math.exp(-1)))],
)
def test_as_many_pages_as_in_production_have_room_for_new_versions_of_rows(
    db: None, capture: Capture, updated_rows: int, with_room: float
) -> None:
    updated = replace(capture, updates={("public", "children"): Updates(updated_rows, updated_rows // 2)})
    load(twin_of(updated, parts(replace(CHILDREN, pages=1000), indexes=[primary_key("children", "id")])))

    (before,) = one("select pg_relation_size('children')")
    # One row of each page.
    (changed,) = one(
        "with done as (update children set parent = parent where ctid in (select min(ctid) from children"
        " group by (ctid::text::point)[0]) returning ctid, id) select count(*) from done"
    )
    (stayed,) = one("select pg_stat_get_xact_tuples_hot_updated('children'::regclass)")

    assert changed == before / 8192 and stayed / changed == pytest.approx(with_room, abs=0.15)


def test_without_updates_in_production_pages_are_full(capture: Capture) -> None:
    assert not any(table.room for table in schema(capture, 1.0).tables.values())


def test_an_index_with_a_predicate_has_all_rows_and_is_not_unique(db: None, capture: Capture) -> None:
    partial = replace(index("children", "parent", unique=True), partial=True)

    twin = twin_of(capture, parts(CHILDREN, indexes=[partial]))
    load(twin)

    assert twin.missing == ['index "public"."children_parent_btree": created without its predicate']
    assert one("select count(*) from pg_index where indrelid = 'children'::regclass and not indisunique") == (1,)


@pytest.mark.parametrize("correlation", [-0.95, 0.6, 0.97, 0.985, 1.0])
def test_as_many_rows_as_in_production_are_out_of_order(db: None, capture: Capture, correlation: float) -> None:
    of_parent = replace(statistics("children", "parent", 500), correlation=correlation)
    children = parts(
        table("children", 9000, ID, PARENT), indexes=[primary_key("children", "id")], statistics=[of_parent]
    )

    load(twin_of(capture, children))

    with connection.cursor() as cursor:
        cursor.execute("analyze children")
    (in_twin,) = one("select correlation from pg_stats where tablename = 'children' and attname = 'parent'")
    assert 1 - abs(in_twin) == pytest.approx(1 - abs(correlation), rel=0.15, abs=0.0001)
    assert in_twin * correlation > 0


@pytest.mark.parametrize("correlation", [-0.92, 0.6, 0.985, 1.0])
def test_as_many_rows_with_different_values_as_in_production_are_out_of_order(
    db: None, capture: Capture, correlation: float
) -> None:
    at = column("at", "timestamp without time zone", "timestamp")
    of_at = replace(statistics("visits", "at", -1), correlation=correlation)
    visits = parts(table("visits", 9000, ID, at), indexes=[primary_key("visits", "id")], statistics=[of_at])

    load(twin_of(capture, visits))

    with connection.cursor() as cursor:
        cursor.execute("analyze visits")
    (in_twin,) = one("select correlation from pg_stats where tablename = 'visits' and attname = 'at'")
    expected = correlation if abs(correlation) >= 0.9 else 1.0
    assert in_twin == pytest.approx(expected, abs=0.005)
    assert one("select count(distinct at) from visits") == (9000,)


def test_dates_are_as_many_days_as_in_production(db: None, capture: Capture) -> None:
    # Half of the values are too frequent for the histogram, so the parts between its bounds are not equally wide.
    bounds = ("2025-01-01", "2025-02-01", "2025-02-10", "2025-05-01", "2025-05-20", "2025-09-01", "2025-12-01")
    of_day = replace(statistics("tours", "day", 335, (0.004,) * 100, bounds=bounds), correlation=1.0)
    tours = parts(table("tours", 6000, ID, column("day", "date", "date")), statistics=[of_day])

    load(twin_of(capture, tours))

    (days,) = one("select count(distinct day) from tours")
    assert days == pytest.approx(335, abs=10)
