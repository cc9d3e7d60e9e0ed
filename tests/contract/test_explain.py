"""EXPLAIN as this server prints it, in all its formats, and what readers must not stumble over."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from apps.errors import FormatError
from apps.results.formats.explain import parse_explain
from apps.results.formats.explain_plan import DEEPEST

SAMPLES = Path(__file__).parents[1] / "samples"
FORMATS = ("text", "json", "yaml", "xml")
QUERIES = {
    "scan": "select * from plan_a where id = 7",
    "backward": "select id from plan_a order by id desc limit 3",
    "bitmap": "select * from plan_a where id < 10 or id > 990",
    "alias": 'select * from "Plan B" b where note = \'->  Seq Scan on x  (cost=1.00..2.00 rows=1 width=1)\'',
    "join": "select a.id from plan_a a left join plan_a o on o.id = a.other where a.id < 500",
    "anti": "select id from plan_a a where not exists (select 1 from plan_a o where o.other = a.id)",
    "aggregate": "select other, count(*) from plan_a group by other having count(*) > 1 order by 2",
    "grouping": "select other, id % 3, sum(id) from plan_a group by grouping sets ((other), (id % 3), ())",
    "cte": "with c as materialized (select * from plan_a) select (select max(id) from c), x.id from c x",
    "union": "select id from plan_a union select other from plan_a except select 3",
    "function": "select g from generate_series(1, 10) g, lateral (values (g), (2)) v(w)",
    "insert": "insert into plan_a select g, g, 'x' from generate_series(2000, 2010) g on conflict do nothing",
    "update": "update plan_a set other = other + 1 where id = 3",
    "delete": "delete from plan_a where id in (select other from plan_a where id < 4)",
    "window": "select id, row_number() over (partition by other order by id) from plan_a",
    "never": "select * from plan_a where id = 1 and false",
    "sub plan": "select id, (select count(*) from plan_a o where o.other = a.id) from plan_a a limit 2",
}


def explained(query: str, options: str) -> bytes:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN ({options}) {query}")
        return "\n".join(row[0] if isinstance(row[0], str) else str(row[0]) for row in cursor.fetchall()).encode()


@pytest.fixture
def tables(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL default_transaction_read_only = off")
        cursor.execute("CREATE TABLE plan_a (id int primary key, other int, note text)")
        cursor.execute("INSERT INTO plan_a SELECT g, g % 100, 'n' FROM generate_series(1, 1000) g")
        cursor.execute('CREATE TABLE "Plan B" (id int, note text)')
        cursor.execute('ANALYZE plan_a, "Plan B"')


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("options", ["costs off", "analyze, buffers, verbose, settings", "analyze, timing off, costs off"])
def test_a_plan_has_one_shape_whatever_the_format(tables: None, query: str, options: str) -> None:
    found = {each: parse_explain(explained(query, f"{options}, format {each}")) for each in FORMATS}

    assert {each: one.format for each, one in found.items()} == {each: each for each in FORMATS}
    assert len({one.shape for one in found.values()}) == 1, {each: one.shape for each, one in found.items()}
