"""The data set of a twin can be loaded, whatever the schema of production is: each case is loaded into PostgreSQL."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection

from agents.datasets.sql import LONGEST
from agents.sql.text import statements
from apps.campaigns.twins.build import build, script
from apps.campaigns.twins.names import qualified
from apps.campaigns.twins.schema import Schema, schema, steps
from readers.twin.capture import read_capture
from readers.twin.model import Capture, Column, Counts, ForeignKey, Index, IndexColumn, Statement, Statistics, Table
from tests.servers.production import SCHEMA

RAW = (Path(__file__).parents[3] / "contract" / "captures" / "shop-18.jsonl").read_bytes()


def column(name: str, type: str, base: str) -> Column:
    return Column(name, type, base, "pg_catalog", "b", "U", True, "", ())


def table(name: str, rows: int, *columns: Column) -> Table:
    return Table("public", name, False, rows, 1, 8192, columns)


def statistics(
    table: str,
    column: str,
    n_distinct: float,
    frequencies: tuple[float, ...] = (),
    common_values: tuple[str, ...] = (),
    bounds: tuple[str, ...] = (),
) -> Statistics:
    return Statistics("public", table, column, 0.0, 4, n_distinct, 0.0, False, frequencies, common_values, bounds)


def index(table: str, *columns: str, method: str = "btree", unique: bool = False, primary: bool = False) -> Index:
    keys = tuple(IndexColumn(name, False, False, None) for name in columns)
    name = "_".join((table, *columns, method))
    return Index("public", table, name, method, unique or primary, primary, 8192, False, False, len(keys), keys)


def primary_key(table: str, *columns: str) -> Index:
    return index(table, *columns, primary=True)


def reference(table: str, to_table: str) -> ForeignKey:
    return ForeignKey("public", table, ("parent",), "public", to_table, ("id",), "a")


def parts(*tables: Table, **others: list[Any]) -> dict[str, list[Any]]:
    return {"tables": list(tables), "indexes": [], "foreign_keys": [], "statistics": [], **others}


ID, PARENT = column("id", "bigint", "int8"), column("parent", "bigint", "int8")
PARENTS, CHILDREN = table("parents", 10, ID), table("children", 5000, ID, PARENT)
WIDE = [f"c{number}" for number in range(60)]
SCHEMAS: dict[str, dict[str, list[Any]]] = {
    "more keys than decimal digits": parts(
        table("countries", 249, column("id", "character(2)", "bpchar")), indexes=[primary_key("countries", "id")]
    ),
    "more keys than values of the type": parts(
        table("switches", 9, column("id", "boolean", "bool")), indexes=[primary_key("switches", "id")]
    ),
    "one row per day": parts(
        table("days", 3650, column("id", "date", "date")),
        indexes=[primary_key("days", "id")],
        statistics=[statistics("days", "id", -1, bounds=("2020-01-01", "2021-01-01", "2029-12-28"))],
    ),
    "more values than a numeric has integers": parts(
        table("rates", 900, column("rate", "numeric(3,2)", "numeric")),
        statistics=[statistics("rates", "rate", 12, frequencies=(0.1,) * 10)],
    ),
    "all values of a smallint": parts(
        table("grades", 40_000, column("grade", "smallint", "int2")), statistics=[statistics("grades", "grade", -1)]
    ),
    "no statistics": parts(
        PARENTS, CHILDREN, indexes=[primary_key("parents", "id")], foreign_keys=[reference("children", "parents")]
    ),
    "a parent that was never analyzed": parts(
        replace(PARENTS, rows=0),
        CHILDREN,
        indexes=[primary_key("parents", "id")],
        foreign_keys=[reference("children", "parents")],
    ),
    "fewer parents than unique children": parts(
        PARENTS,
        table("profiles", 12, ID, PARENT),
        CHILDREN,
        indexes=[primary_key("parents", "id"), primary_key("profiles", "id"), index("profiles", "parent", unique=True)],
        foreign_keys=[reference("profiles", "parents"), reference("children", "profiles")],
        statistics=[statistics("children", "parent", 12)],
    ),
    "two parents of one column": parts(
        PARENTS,
        table("others", 5, ID),
        CHILDREN,
        indexes=[primary_key("parents", "id"), primary_key("others", "id")],
        foreign_keys=[reference("children", "others"), reference("children", "parents")],
    ),
    "a key of several columns with uneven bounds": parts(
        table("years", 120, column("id", "integer", "int4"), column("year", "integer", "int4")),
        indexes=[primary_key("years", "id", "year")],
        statistics=[
            statistics("years", "id", 2),
            statistics("years", "year", 60, bounds=("1900", "2000", *(str(2004 + year) for year in range(19)))),
        ],
    ),
    "too few values for a key of several columns": parts(
        table("kinds", 5000, ID, column("a", "boolean", "bool"), column("b", "boolean", "bool")),
        CHILDREN,
        indexes=[primary_key("kinds", "id"), index("kinds", "a", "b", unique=True)],
        foreign_keys=[reference("children", "kinds")],
        statistics=[statistics("children", "parent", 5000)],
    ),
    "operator classes of extensions": parts(
        table("pages", 500, column("text", "text", "text"), column("search", "tsvector", "tsvector")),
        indexes=[
            index("pages", "search", method="gin"),
            index("pages", "text", method="gin"),
            index("pages", "search", method="gist"),
        ],
    ),
    "many columns with common values": parts(
        table("wide", 200, *(column(name, "text", "text") for name in WIDE)),
        statistics=[statistics("wide", name, 150, (1 / 151,) * 100, ("x" * 900,) * 100) for name in WIDE],
    ),
    "no columns": parts(table("empty", 100)),
}


@pytest.fixture(scope="module")
def capture() -> Capture:
    return read_capture(RAW)


def twin_of(capture: Capture, parts: dict[str, list[Any]]) -> Schema:
    return schema(replace(capture, **{field: tuple(each) for field, each in parts.items()}), 1.0)


def load(twin: Schema) -> None:
    """Executes the steps in the database of the test."""
    with connection.cursor() as cursor:
        for step in steps(twin):
            assert len(step["sql"]) <= LONGEST
            if step.get("transaction", True):
                cursor.execute(step["sql"])


def rows(name: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"select count(*) from {name}")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_data_set_of_an_unusual_schema_can_be_loaded(db: None, capture: Capture, name: str) -> None:
    twin = twin_of(capture, SCHEMAS[name])

    load(twin)

    for each in twin.tables.values():
        assert rows(qualified(each.key)) == (each.count if each.domains else 0)


def test_parts_of_an_unusual_schema_that_the_twin_lacks_are_listed(capture: Capture) -> None:
    names = ("more keys than values of the type", "operator classes of extensions", "two parents of one column")
    lists = [
        [part for name in names for part in SCHEMAS[name][field]] for field in ("tables", "indexes", "foreign_keys")
    ]
    fields = dict(zip(("tables", "indexes", "foreign_keys"), map(tuple, lists), strict=True))

    missing = schema(replace(capture, **fields, statistics=()), 1.0).missing

    assert missing == [
        'index "public"."pages_search_gin": no operator class of gin for its columns',
        'index "public"."pages_text_gin": no operator class of gin for its columns',
        'index "public"."pages_search_gist": no operator class of gist for its columns',
        'index "public"."switches_id_btree": created without UNIQUE',
        'foreign key of "public"."children" ("parent")',
        '"public"."pages"."search": type tsvector, created as text',
    ]


def test_new_rows_of_a_full_text_key_have_new_values(db: None, capture: Capture) -> None:
    codes = table("codes", 999, column("id", "character varying(4)", "varchar"))
    twin = twin_of(capture, parts(codes, indexes=[primary_key("codes", "id")]))
    load(twin)

    with connection.cursor() as cursor:
        id_of_new_row = twin.tables["public", "codes"].domains["id"].value("nextval('proving_twin.new_1')")
        cursor.execute(f"insert into codes select {id_of_new_row} from generate_series(1, 1000)")

    assert rows("codes") == 1999


def test_the_sample_can_be_loaded_with_fewer_rows(db: None, capture: Capture) -> None:
    load(schema(capture, 0.01))

    assert (rows("shop.customers"), rows("shop.lines")) == (50, 600)


def test_a_pattern_of_like_matches_the_expected_rows(db: None, capture: Capture) -> None:
    twin = schema(capture, 1.0)
    load(twin)
    counts = Counts(calls=10, ms=1.0, rows=900, hit=40)
    text, *_ = script(Statement("1", "select id from shop.customers where email like $1", counts), twin, 1.0, "s01")

    with connection.cursor() as cursor:
        cursor.execute(text.splitlines()[-1].replace(":twin_1", "4321"))
        assert len(cursor.fetchall()) == 100


def execute(text: str) -> None:
    with connection.cursor() as cursor:
        for each in statements(text):
            cursor.execute(each)


def a_copy_of_production() -> None:
    """The tables of the sample, with other ids and texts than synthetic rows have."""
    execute(SCHEMA.partition("create function")[0])
    execute("alter table shop.orders drop constraint orders_customer_id_fkey")
    execute("update shop.customers set id = id + 500000, email = 'real-' || email")


def test_parameters_of_a_twin_on_existing_data_are_keys_of_their_rows(db: None, capture: Capture) -> None:
    a_copy_of_production()
    (lookup,) = [each for each in capture.statements if each.text.startswith("select id, email")]

    built = build(replace(capture, statements=(lookup,)), existing=True)

    execute(built.preparation)
    assert built.steps == [] and built.missing == []
    last = built.scripts[0]["text"].splitlines()[-1]
    with connection.cursor() as cursor:
        for rank in (1, 2500, 5000):
            cursor.execute(last.replace(":twin_1", str(rank)))
            assert len(cursor.fetchall()) == 1


def test_new_rows_on_existing_data_have_new_keys(db: None, capture: Capture) -> None:
    a_copy_of_production()
    text = "insert into shop.customers (id, email, country, created_at) values ($1, $2, $3, $4)"
    insert = Statement("1", text, Counts(calls=10, ms=1.0, rows=10))

    built = build(replace(capture, statements=(insert,)), existing=True)

    execute(built.preparation)
    last = re.sub(r":twin_\d+", "7", built.scripts[0]["text"].splitlines()[-1])
    execute(last)
    execute(last)
    with connection.cursor() as cursor:
        cursor.execute("select id, email from shop.customers order by id desc limit 2")
        assert cursor.fetchall() == [(505002, "twin2"), (505001, "twin1")]


def test_columns_that_the_existing_data_lack_are_named(db: None, capture: Capture) -> None:
    a_copy_of_production()
    execute("alter table shop.customers drop column balance; drop table shop.lines; drop table shop.products")

    built = build(capture, existing=True)

    message = (
        r"lacks tables or columns of the captured database: shop\.customers\.balance, shop\.lines, shop\.products$"
    )
    with pytest.raises(DatabaseError, match=f"(?m){message}"):
        execute(built.preparation)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("select count(*) from shop.lines", r"shop\.lines$"),
        (
            "insert into shop.customers (id, email, country, created_at) values ($1, $2, $3, $4)",
            r"shop\.customers\.email$",
        ),
    ],
    ids=["no column", "an inserted column"],
)
def test_tables_and_columns_that_the_existing_data_lack_are_named_however_they_are_used(
    db: None, capture: Capture, text: str, missing: str
) -> None:
    a_copy_of_production()
    execute("alter table shop.customers drop column email; drop table shop.lines")

    built = build(
        replace(capture, statements=(Statement("1", text, Counts(calls=10, ms=1.0, rows=10)),)), existing=True
    )

    with pytest.raises(DatabaseError, match=f"(?m)lacks .*: {missing}"):
        execute(built.preparation)


@pytest.mark.parametrize("is_analyzed", [True, False])
def test_existing_data_may_have_far_fewer_rows_than_production(db: None, capture: Capture, is_analyzed: bool) -> None:
    a_copy_of_production()
    execute("analyze shop.customers" if is_analyzed else "select 1")
    (lookup,) = [each for each in capture.statements if each.text.startswith("select id, email")]
    large = tuple(replace(each, rows=each.rows * 1_000_000) for each in capture.tables)

    built = build(replace(capture, tables=large, statements=(lookup,)), existing=True)

    execute(built.preparation)
    (keys,) = re.findall(r"create table (proving_twin\.keys_\d+)", built.preparation)
    assert rows(keys) == 5000


def test_values_of_every_type_that_is_stored_are_sampled(db: None, capture: Capture) -> None:
    types = {"json": "json", "jsonb": "jsonb", "uuid": "uuid", "boolean": "bool", "inet": "inet", "bytea": "bytea"}
    types |= {"integer[]": "_int4", "time without time zone": "time", "interval": "interval", "oid": "oid"}
    columns = [column(f"c{n}", *each) for n, each in enumerate(types.items())]
    definition = ", ".join(f"{each.name} {each.type}" for each in columns)
    values = "'{}', '{}', gen_random_uuid(), true, '10.0.0.1', 'x', '{1}', '01:00', '1 hour', 1"
    execute(f"create table documents ({definition}); insert into documents values ({values})")
    names, numbers = ", ".join(each.name for each in columns), ", ".join(f"${n + 1}" for n in range(len(columns)))
    insert = Statement("1", f"insert into documents ({names}) values ({numbers})", Counts(calls=10, ms=1.0, rows=10))
    captured = replace(capture, tables=(table("documents", 1, *columns),), indexes=(), foreign_keys=(), statistics=())

    built = build(replace(captured, statements=(insert,)), existing=True)

    execute(built.preparation)
    execute(re.sub(r":twin_\d+", "1", built.scripts[0]["text"].splitlines()[-1]))
    assert rows("(select distinct documents::text from documents) same") == 1 and rows("documents") == 2


def test_both_columns_of_a_key_of_two_columns_keep_their_distinct_values(db: None, capture: Capture) -> None:
    votes = table("votes", 6000, column("post", "bigint", "int8"), column("member", "int", "int4"))
    columns = [statistics("votes", "post", n_distinct=4000.0), statistics("votes", "member", n_distinct=800.0)]
    load(twin_of(capture, parts(votes, indexes=[primary_key("votes", "post", "member")], statistics=columns)))

    with connection.cursor() as cursor:
        cursor.execute("select count(*), count(distinct post), count(distinct member) from votes")
        count, posts, members = cursor.fetchone()
    assert count == 6000 and posts == pytest.approx(4000, rel=0.3) and members == 800
