"""Whether SQL may write: only statements that are known to read count as reading."""

from __future__ import annotations

import pytest

from agents.sql.scan import may_write

READS = [
    "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
    "\\set x 1 + \\\n 2\nselect :x",
    "with x as (select 1) select * from x; -- delete from t",
    "select 'insert into t' /* drop /* nested */ table t */",
    "begin; select count(*) from t; end;",
    "select 1 \\gset\nselect :a",
    "(select count(*) from t)",
    "explain analyze select 1",
    "create extension if not exists pg_prewarm; select pg_prewarm('t')",
    "",
]
WRITES = [
    "update t set i = 1",
    "select * from t for update",
    "select * into u from t",
    "with gone as (delete from t returning *) select * from gone",
    "select 'a\\'; delete from t; select ''",
    "select hit(1)",
    'select "hit"(1)',
    "select nextval('s')",
    "do $$ begin end $$",
    "analyze t",
    "selec 1;",
    "execute whatever",
]


@pytest.mark.parametrize("text", READS)
def test_statements_that_only_read_are_recognised(text: str) -> None:
    assert not may_write(text)


@pytest.mark.parametrize("text", WRITES)
def test_statements_that_may_write_are_recognised(text: str) -> None:
    assert may_write(text)
