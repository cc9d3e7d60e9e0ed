"""From a capture to scripts: which statements are in a twin, with which values, and which users may create one."""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from agents.datasets import DATASETS
from apps.accounts.models import Role, User
from apps.campaigns.library import datasets
from apps.campaigns.models import DataSet, Twin
from apps.campaigns.twins import services
from apps.campaigns.twins.build import MOST_CHARACTERS, build, script
from apps.campaigns.twins.preloading import runs_twin
from apps.campaigns.twins.schema import Schema, schema, steps
from apps.campaigns.twins.statements.parsing import LeftOutError
from common.errors import PlanError, RoleError
from readers.twin.capture import LONGEST_TEXT, read_capture
from readers.twin.model import Capture, Column, Counts, Statement
from tests.rows.factories import make_user

NAN = float("nan")
RAW = (Path(__file__).parents[3] / "contract" / "captures" / "shop-18.jsonl").read_bytes()


@pytest.fixture(scope="module")
def capture() -> Capture:
    return read_capture(RAW)


@pytest.fixture(scope="module")
def shop(capture: Capture) -> Schema:
    return schema(capture, 1.0)


@pytest.fixture
def author(db: None) -> User:
    tuner = make_user(Role.TUNER)
    tuner.may_run_commands = True
    tuner.save()
    return tuner


def script_of(shop: Schema, text: str, rows: float = 1.0, blocks: int = 3) -> str:
    """The script of a statement with these rows and blocks per call."""
    counts = Counts(calls=100, ms=1.0, rows=round(100 * rows), hit=100 * blocks)
    return script(Statement("1", text, counts), shop, 1.0, "s01")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select id from shop.customers where id = $1", "random(1, 5000)"),
        ("select id from customers c where c.id = $1", 'from "shop".customers c where c.id = :twin_1'),
        ("select * from shop.orders where id between $1 and $2", "+ proving_twin.width_s01(:twin_1) - 1"),
        ("select * from shop.orders where id >= $1 and id < $2", "least(proving_twin.rank_s01(:twin_1), 20001 - "),
        ("select * from shop.orders where id > $1", "id > greatest(0, 20000 - proving_twin.width_s01(:twin_1))"),
        ("select * from shop.orders where placed_at > now() - interval $1", "now() - (now() - (proving_twin.value_"),
        ("select * from shop.orders where placed_at > now() - $1 * interval $2", "now() - 1 * (now() - (proving_"),
        ("select * from shop.orders where placed_at >= date $1", "placed_at >= (proving_twin.value_"),
        (
            "select id from shop.orders where customer_id = $1",
            "customer_id = proving_twin.value_14(proving_twin.rank_s01(",
        ),
        (
            "select id from shop.orders where customer_id = $1 and status = $2",
            "status = proving_twin.key_s01_1(proving_",
        ),
        ("select * from shop.orders where id > $1 order by id limit $2", "limit 10"),
        ("select * from shop.orders where id in ($1...)", "in (:twin_1, :twin_2, :twin_3,"),
        ("select * from shop.orders where id = any($1)", "any(array[:twin_1, :twin_2,"),
        ("select * from shop.customers where email = $1", "email = proving_twin.value_2(:twin_1)"),
        ("select * from (select id as k from shop.orders) s where s.k = $1", "s.k = :twin_1"),
        ("with o as (select id from shop.orders where id = $1) select * from o", "random(1, 20000)"),
        ("update shop.orders set note = $1 where id = $2", "set note = proving_twin.value_"),
        ("update shop.customers set balance = balance - ($1)::numeric where id = $2", "balance - (1)::numeric"),
        ("insert into shop.products (id, name) values ($1, $2)", "nextval('proving_twin.new_"),
        ("select coalesce(sum(total), $1) from shop.orders where status = $2", "coalesce(sum(total), 0)"),
        (
            "select * from shop.lines where (order_id, line) > ($1, $2) limit $3",
            "(order_id, line) > (proving_twin.value_",
        ),
    ],
)
def test_parameters_get_values_from_the_columns_that_they_belong_to(shop: Schema, text: str, expected: str) -> None:
    assert expected in script_of(shop, text, rows=10)


@pytest.mark.parametrize(
    ("rows", "blocks", "pattern"),
    [
        (1, 3, "(left(proving_twin.value_2(:twin_1), 5) || '%')"),
        (90, 95, "('%' || left(proving_twin.value_2(:twin_1), 3) || '%')"),
        (90, 10, "(left(proving_twin.value_2(:twin_1), 3) || '%')"),
    ],
    ids=["one row", "all blocks", "few blocks"],
)
def test_patterns_of_like_match_the_number_of_rows_in_production(
    shop: Schema, rows: float, blocks: int, pattern: str
) -> None:
    written = script_of(shop, "select id from shop.customers where email like $1", rows=rows, blocks=blocks)

    assert f"email like {pattern}" in written and "random(1, 5000)" in written


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select pg_read_file($1)", "calls the function pg_read_file"),
        ("select shop.audit($1)", "calls the function shop.audit"),
        ('select "pg_sleep"($1)', "calls the function pg_sleep"),
        ("select pg_catalog.pg_terminate_backend($1)", "calls the function pg_terminate_backend"),
        ("select * from pg_authid", "pg_authid is not among the captured tables"),
        ("select 1 into shop.x", "does not read or write rows"),
        ("copy shop.orders to program $1", "does not read or write rows"),
        ("select 1; drop table shop.orders", "pgbench would interpret"),
        ("select id from shop.orders where id = $1 \\shell id", "pgbench would interpret"),
        ("select id from shop.orders where id = :twin_1", "pgbench would interpret"),
        ("select id from shop.orders where", "cannot be parsed"),
        ("select $1", "column of parameter $1 is unknown"),
        ("select * from shop.orders where note not like $1", "no pattern of LIKE can be generated"),
        ("select * from shop.orders where note ~ $1", "column of parameter $1 is unknown"),
        ("delete from shop.customers where id = $1", "rows of orders refer to the rows that it deletes"),
        ("update shop.customers set email = $1 where id = $2", "changes the unique column email"),
    ],
)
def test_a_statement_is_left_out_for_a_reason(shop: Schema, text: str, reason: str) -> None:
    with pytest.raises(LeftOutError, match=reason.replace("$", r"\$")):
        script_of(shop, text)


@pytest.mark.parametrize(
    "text",
    [
        "with x as (select n from generate_series(1, 9) n) select n from x",
        "with recursive x as (select id from x) select id from x where id = $1",
        "select id from (select id from generate_series(1, 9)) x where id = $1",
    ],
    ids=["no table", "itself", "subquery"],
)
def test_a_name_without_a_table_is_not_searched_in_the_query_that_reads_it(shop: Schema, text: str) -> None:
    with pytest.raises(LeftOutError, match="is unknown") if "$1" in text else nullcontext():
        script_of(shop, text)


def test_a_statement_that_is_nested_too_deeply_is_left_out(shop: Schema) -> None:
    chain = ", ".join(f"c{n} as (select id from c{n - 1})" for n in range(1, 300))

    with pytest.raises(LeftOutError, match="nested too deeply"):
        script_of(shop, f"with c0 as (select id from shop.orders), {chain} select id from c299 where id = $1")


@pytest.mark.parametrize(
    "text",
    [
        f"select {', '.join(['id'] * 1900)} from shop.orders where id = $1",
        f"select * from shop.orders where id in ({', '.join(f'${n}' for n in range(1, 1000))})",
        f"select * from shop.orders where id = {' + '.join(f'${n}' for n in range(1, 1000))}",
        f"select {', '.join(['id'] * 500)} from {', '.join(f'shop.orders t{n}' for n in range(300))} where id = $1",
        "with c0 as (select id from shop.orders), "
        + ", ".join(f"c{n} as (select id from c{n - 1} x, c{n - 1} y)" for n in range(1, 60))
        + " select id from c59 where id = $1",
    ],
    ids=["columns", "list", "sum", "tables", "queries"],
)
def test_the_longest_statements_take_less_than_a_second(shop: Schema, text: str) -> None:
    began = time.process_time()

    with suppress(LeftOutError):
        script_of(shop, text)

    assert len(text) <= LONGEST_TEXT
    assert time.process_time() - began < 1


@pytest.mark.thorough
def test_statements_that_are_too_long_in_all_are_not_parsed(capture: Capture) -> None:
    first = capture.statements[0]
    long = f"select {', '.join(['id'] * 1900)} from shop.orders where id = $1"
    counts = [replace(first.counts, calls=1, ms=float(n)) for n in range(100, 0, -1)]
    statements = tuple(Statement(str(n), long, of) for n, of in enumerate(counts))

    built = build(replace(capture, statements=statements), without=[each.queryid for each in statements[:-1]])

    reasons = Counter(row.reason for row in built.rows)
    assert reasons["it is left out on request"] == MOST_CHARACTERS // len(long)
    assert built.scripts == []


def test_foreign_keys_that_follow_one_another_need_no_recursion_without_end(capture: Capture) -> None:
    table, key, statement = capture.tables[0], capture.foreign_keys[0], capture.statements[0]
    column = table.columns[0]
    names = [f"t{n}" for n in range(1500)]
    chain = [
        replace(key, table=a, columns=(column.name,), to_table=b, to_columns=(column.name,)) for a, b in pairwise(names)
    ]
    tables = tuple(replace(table, name=name, columns=(column,)) for name in names)
    chained = replace(capture, tables=tables, foreign_keys=tuple(chain), indexes=(), statements=(statement,))

    assert len(schema(chained, 1.0).tables) == 1500


def test_keys_of_new_rows_come_from_sequences_of_the_data_set(shop: Schema) -> None:
    text = "insert into shop.lines (order_id, line, product_id, quantity) values ($1, $2, $3, $4)"
    definitions = " ".join(step["sql"] for step in steps(shop))

    (sequence,) = re.findall(r"nextval\('([a-z_0-9.]+)'\)", script_of(shop, text))

    assert f"create sequence {sequence} start 60001 " in definitions


def test_a_statement_on_an_empty_table_is_in_the_twin(capture: Capture) -> None:
    empty = replace(capture, tables=tuple(replace(each, rows=0) for each in capture.tables), foreign_keys=())

    assert "any(array[" in script_of(schema(empty, 1.0), "select * from shop.lines where product_id = any($1)", rows=0)


def test_keys_that_no_row_has_are_drawn_for_calls_without_rows(shop: Schema) -> None:
    assert r"\set twin_1 random(1, 10000)" in script_of(shop, "select id from shop.customers where id = $1", rows=0.5)


def test_calls_are_the_weights_of_scripts_and_the_rest_of_the_time_is_listed(capture: Capture) -> None:
    built = build(capture)

    assert [(each["name"], each["weight"]) for each in built.scripts][:3] == [("s01", 461), ("s02", 599), ("s03", 308)]
    assert built.covered == pytest.approx(0.9927, abs=0.001)
    assert sum(row.share for row in built.rows) == pytest.approx(1)
    assert all(row.reason for row in built.rows if not row.script)


def test_a_statement_can_be_left_out(capture: Capture) -> None:
    first = capture.statements[0]

    built = build(capture, without=[first.queryid])

    assert built.rows[0].reason == "it is left out on request" and built.scripts[0]["weight"] == 599


def test_statements_of_a_transaction_share_one_script_in_their_order(capture: Capture) -> None:
    first, second = (each.queryid for each in capture.statements[:2])
    calls = min(each.counts.calls for each in capture.statements[:2])
    equal = tuple(replace(each, counts=replace(each.counts, calls=calls)) for each in capture.statements[:2])
    alike = replace(capture, statements=(*equal, *capture.statements[2:]))

    built = build(alike, transactions=[[second, first]])

    script = built.scripts[-1]
    assert (script["name"], script["weight"]) == ("t1", calls)
    marks = re.findall(r"^begin;|/\* s\d\d \*/|^commit;", script["text"], re.MULTILINE)
    assert marks == ["begin;", "/* s02 */", "/* s01 */", "commit;"]
    assert [row.transaction for row in built.rows[:3]] == ["t1", "t1", ""]
    assert len(built.scripts) == len(build(alike).scripts) - 1


def test_a_statement_with_twice_the_calls_runs_twice_in_its_transaction(capture: Capture) -> None:
    once, twice = (
        replace(each, counts=replace(each.counts, calls=calls))
        for each, calls in zip(capture.statements, (100, 204), strict=False)
    )
    alike = replace(capture, statements=(once, twice))

    (script,) = build(alike, transactions=[[once.queryid, twice.queryid]]).scripts

    assert script["weight"] == 100 and script["text"].count("/* s02 */") == 2


def test_a_statement_of_a_transaction_is_in_the_twin_although_it_takes_hardly_any_time(capture: Capture) -> None:
    large, small = (
        replace(each, counts=replace(each.counts, calls=100, ms=ms))
        for each, ms in zip(capture.statements, (1000.0, 1.0), strict=False)
    )
    alike = replace(capture, statements=(large, small))

    (script,) = build(alike, transactions=[[large.queryid, small.queryid]]).scripts

    assert [each["name"] for each in build(alike).scripts] == ["s01"]
    assert script["name"] == "t1" and "/* s02 */" in script["text"]


def test_the_rate_of_production_counts_each_transaction_once(capture: Capture) -> None:
    pair = tuple(replace(each, counts=replace(each.counts, calls=100)) for each in capture.statements[:2])
    alike = replace(capture, statements=pair, seconds=10.0)

    assert build(alike).calls_per_s == 20
    assert build(alike, transactions=[[each.queryid for each in pair]]).calls_per_s == 10


@pytest.mark.parametrize(
    ("transactions", "message"),
    [
        ([["1", "nothing"]], "the twin has no statement nothing: it is not in the capture"),
        ([["1", "4"]], "the twin has no statement 4: it does not read or write rows"),
        ([["1"]], "fewer than two statements"),
        ([["1", "2"], ["2", "1"]], "appears twice"),
        ([["1", "3"]], "3 has 1.5 calls per call of 1"),
    ],
)
def test_statements_that_cannot_be_a_transaction_are_refused(
    capture: Capture, transactions: list[list[str]], message: str
) -> None:
    statements = tuple(
        replace(each, queryid=str(n), counts=replace(each.counts, calls=calls))
        for n, calls, each in zip((1, 2, 3), (100, 100, 150), capture.statements, strict=False)
    )
    statements += (replace(statements[0], queryid="4", text="truncate"),)

    with pytest.raises(PlanError, match=message) as raised:
        build(replace(capture, statements=statements), transactions=transactions)

    assert raised.value.subject == "transactions" and raised.value.hint


def test_the_agent_accepts_the_data_set_and_its_factor(capture: Capture) -> None:
    data_set = build(capture, 0.1).steps

    DATASETS["sql"].check({"steps": data_set})
    assert data_set[-1]["name"] == "vacuum-again"
    assert "generate_series(1::bigint, 500)" in next(step["sql"] for step in data_set if step["name"] == "rows-1")


def test_names_and_types_of_a_hostile_capture_stay_names(capture: Capture) -> None:
    evil = 'x"; drop table t; --'
    first = capture.tables[0]
    column = Column(evil, "int) ; drop table t; --", "int4", "pg_catalog", "b", "N", False, "", ())
    table = replace(first, name=evil, columns=(*first.columns, column))

    sql = schema(replace(capture, tables=(table,), indexes=(), foreign_keys=()), 1.0)

    (definition,) = [step["sql"] for step in steps(sql) if "create table" in step["sql"]]
    assert '"shop"."x""; drop table t; --" (' in definition
    assert '"x""; drop table t; --" text' in definition and "int) ;" not in definition


@pytest.mark.parametrize("raw", [RAW, b"not a capture"])
def test_a_twin_is_code_so_its_author_needs_the_permission_to_run_commands(author: User, raw: bytes) -> None:
    with pytest.raises(RoleError, match="may not run commands"):
        services.create("shop", raw, by=make_user(Role.TUNER))

    assert services.create("shop", RAW, by=author).workload.steps[0]["kind"] == "pgbench"


@pytest.mark.parametrize(("raw", "factor", "field"), [("{}", 1.0, "file"), ("", 0.0, "factor"), ("", NAN, "factor")])
def test_the_error_for_an_invalid_twin_names_the_field(author: User, raw: str, factor: float, field: str) -> None:
    with pytest.raises(PlanError) as raised:
        services.create("shop", raw.encode() or RAW, factor=factor, by=author)

    assert raised.value.subject == field and not Twin.objects.exists()


def test_the_rate_of_production_becomes_the_rate_of_pgbench(author: User) -> None:
    twin = services.create("shop", RAW, load=services.Load(pace="production"), by=author)

    assert twin.workload.steps[0]["options"]["rate"] == pytest.approx(624.5, abs=1)


def test_a_twin_on_existing_data_has_a_workload_of_its_own_only(author: User) -> None:
    copy = datasets.save_dataset("copy", "sql", {"steps": [{"name": "load", "sql": "select 1"}]}, by=author)

    twin = services.create("shop", RAW, dataset=copy, by=author)

    assert twin.dataset == copy and not DataSet.objects.filter(name="shop").exists()
    assert [(each["name"], each["kind"]) for each in twin.workload.steps] == [
        ("prepare", "sql"),
        ("measure", "pgbench"),
    ]
    assert runs_twin(copy, twin.workload.steps) and not runs_twin(copy, [])


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_synthetic_rows_and_factors_are_refused_as_existing_data(author: User, factor: float) -> None:
    synthetic = services.create("first", RAW, by=author).dataset
    real = datasets.save_dataset("copy", "sql", {"steps": [{"name": "load", "sql": "select 1"}]}, by=author)

    with pytest.raises(PlanError) as raised:
        services.create("second", RAW, factor=factor, dataset=real if factor != 1 else synthetic, by=author)

    assert raised.value.subject == ("factor" if factor != 1 else "dataset")
