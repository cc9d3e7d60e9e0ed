"""EXPLAIN as this server prints it, in all its formats, and what readers must not stumble over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.db import connection

from common.errors import FormatError
from readers.explain.output import parse_explain
from readers.explain.plan import DEEPEST, Buffers

SAMPLES = Path(__file__).parents[1] / "samples"
FORMATS = ("text", "json", "yaml", "xml")
QUERIES = {
    "scan": "select * from plan_a where id = 7",
    "backward": "select id from plan_a order by id desc limit 3",
    "bitmap": "select * from plan_a where id < 10 or id > 990",
    "alias": "select * from \"Plan B\" b where note = '->  Seq Scan on x  (cost=1.00..2.00 rows=1 width=1)'",
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
        # The driver has already parsed JSON; a saved file contains its text.
        lines = [one if isinstance(one, str) else json.dumps(one) for (one,) in cursor.fetchall()]
        return "\n".join([*lines, ""]).encode()


@pytest.fixture
def tables(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL default_transaction_read_only = off")
        cursor.execute("CREATE TABLE plan_a (id int primary key, other int, note text)")
        cursor.execute("INSERT INTO plan_a SELECT g, g % 100, 'n' FROM generate_series(1, 1000) g")
        cursor.execute('CREATE TABLE "Plan B" (id int, note text)')
        cursor.execute('ANALYZE plan_a, "Plan B"')


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize(
    "options", ["costs off", "analyze, buffers, verbose, settings", "analyze, timing off, costs off"]
)
def test_a_plan_has_the_same_structure_in_all_formats(tables: None, query: str, options: str) -> None:
    plans = {each: parse_explain(explained(query, f"{options}, format {each}")) for each in FORMATS}

    assert {each: one.format for each, one in plans.items()} == {each: each for each in FORMATS}
    assert len({plan.shape for plan in plans.values()}) == 1, {each: one.shape for each, one in plans.items()}


def test_the_same_query_keeps_its_shape_while_its_figures_change(tables: None) -> None:
    first = parse_explain(explained(QUERIES["join"], "analyze, format json"))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM plan_a WHERE id < 100")

    second = parse_explain(explained(QUERIES["join"], "analyze, format json"))

    assert (first.plans[0].root.actual_rows, second.plans[0].root.actual_rows) == (499, 400)
    assert first.shape == second.shape


def test_another_plan_of_the_same_query_has_another_shape(tables: None) -> None:
    by_index = parse_explain(explained(QUERIES["scan"], "format json"))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_indexscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")

    by_table = parse_explain(explained(QUERIES["scan"], "format json"))

    assert by_index.shape == "Index Scan using plan_a_pkey on plan_a"
    assert by_table.shape == "Seq Scan on plan_a"


def test_figures_are_the_same_in_every_format() -> None:
    plans = [parse_explain((SAMPLES / f"explain-15-update.{each}").read_bytes()).plans[0] for each in ("yaml", "xml")]

    assert [plan.root.buffers.shared_read for plan in plans if plan.root.buffers] == [46, 46]
    assert [plan.planning_buffers.shared_hit for plan in plans if plan.planning_buffers] == [70, 70]
    assert [plan.root.io_read_ms for plan in plans] == [45.591, 25.607]
    assert [plan.root.children[0].actual_rows for plan in plans] == [49, 49]


def test_settings_are_read_in_every_format(tables: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL work_mem = '77MB'")

    by_format = [parse_explain(explained("select 1", f"settings, format {each}")).plans[0].settings for each in FORMATS]

    assert all(("work_mem", "77MB") in settings for settings in by_format)


def test_executions_that_follow_one_another_are_so_many_plans() -> None:
    text = (SAMPLES / "explain-15-parallel_agg.txt").read_bytes()
    yaml = (SAMPLES / "explain-15-update.yaml").read_bytes()
    xml = (SAMPLES / "explain-15-update.xml").read_bytes()
    json_ = b'[{"Plan": {"Node Type": "Result"}}]'

    assert [len(parse_explain(one * 3).plans) for one in (text, yaml, xml, json_)] == [3, 3, 3, 3]


def test_json_in_psqls_table_is_read() -> None:
    framed = b""" QUERY PLAN
----------------------------
 [                         +
   {                       +
     "Plan": {             +
       "Node Type": "Result"+
     }                     +
   }                       +
 ]
(1 row)
"""

    assert parse_explain(framed).shape == "Result"


def test_figures_of_single_workers_are_not_those_of_the_node() -> None:
    raw = b"""Parallel Seq Scan on t  (cost=0.00..1.00 rows=1 width=4) (actual time=0.1..0.2 rows=3 loops=3)
  Buffers: shared hit=9
  Worker 0:  actual time=0.1..0.2 rows=1 loops=1
    Buffers: shared hit=1
"""

    (plan,) = parse_explain(raw).plans

    assert plan.root.buffers == Buffers(shared_hit=9)


def test_an_executed_plan_without_its_end_says_what_is_missing() -> None:
    whole = (SAMPLES / "explain-15-parallel_agg.txt").read_bytes()

    (cut,) = parse_explain(whole[: whole.index(b"Planning:")]).plans

    assert cut.missing == ("execution time",)
    assert parse_explain(whole).plans[0].missing == ()


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (b"hello, world", "is not a plan node"),
        (b"Seq Scan on t  (cost=0,00..1,00 rows=1 width=4)", "cannot read the node"),
        (b"Seq Scan on t  (cost=0.00..1.00 rows=1 wid", "cannot read the node"),
        (b"      ->  Seq Scan on t  (cost=0.00..1.00 rows=1 width=4)", "no node above"),
        (b"Seq Scan on t  (cost=0.00..1.00 rows=1 width=4)\n  Buffers: shared hit=1 re", "cannot read the buffers"),
        (b"Result\nExecution Time: 1,5 ms", "is not a time"),
        (b'[{"Plan": {"Node Type": "Result", "Total Cost": NaN}}]', "cut or damaged"),
        (b'[{"Plan": {"Node Type": "Result", "Total Cost": true}}]', "expected a number"),
        (b'[{"Plan": {"Node Type": 7}}]', "no Node Type"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"Plan":' + b'{"Node Type": "R", "Plans": [' * 200 + b"]}" * 200 + b"}", "over 150 levels"),
        (b"<!DOCTYPE x [<!ENTITY a 'b'>]><explain>&a;</explain>", "damaged"),
        (b"<explain><!DOCTYPE x></explain>", "damaged"),
        (b"<explain>" + b"<Plan>" * 5000 + b"</explain>", "nested too deeply"),
        (b"<explain><Query/>", "not closed"),
        (b'- Plan: \n    Node Type: "Res', "is not a complete string"),
        (b'- Plan: \n    Node Type: "Result"\n      - 3', "does not belong"),
    ],
)
def test_an_incomplete_plan_is_refused(spoilt: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_explain(spoilt + b"\n")


def test_a_plan_deeper_than_any_planner_makes_is_refused() -> None:
    deep = "Append  (cost=0.00..1.00 rows=1 width=4)\n" + "".join(
        f"{' ' * (2 + 6 * level)}->  Append  (cost=0.00..1.00 rows=1 width=4)\n" for level in range(DEEPEST)
    )

    with pytest.raises(FormatError, match="has more than"):
        parse_explain(deep.encode())
