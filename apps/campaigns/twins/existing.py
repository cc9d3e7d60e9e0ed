"""A twin on existing data, such as a copy of production: keys for its parameters are sampled from the rows. Pure.

Before the load, a step checks that the data have the tables and columns of the statements. It then fills a schema of
its own: for each column that a parameter belongs to, a table of sampled values, and the function that the scripts call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from apps.campaigns.twins import calibration
from apps.campaigns.twins.columns import Domain
from apps.campaigns.twins.names import OWN_SCHEMA, Key, ident, literal, qualified
from apps.campaigns.twins.schema import Schema
from apps.campaigns.twins.statements.parsing import Parsed

SAMPLED = 20_000  # values per column
LARGE = 2_000_000  # rows: of larger tables, only some blocks are read
HINT = "choose a data set with the tables of the captured database, or leave the statements out"
_USED = re.compile(rf"\b{OWN_SCHEMA}\.(value|new)_(\d+)\b")


def with_existing_rows(schema: Schema) -> Schema:
    """The schema, whose values come from rows that exist. Frequent values are sampled more often."""
    for table in schema.tables.values():
        table.domains = {
            name: replace(each, existing=True, is_key=False, frequencies=(), common_values=(), edges=())
            for name, each in table.domains.items()
        }
    return schema


def preparation(
    schema: Schema, parsed: Sequence[Parsed], scripts: Sequence[str], choices: Sequence[calibration.CalibratedStatement]
) -> str:
    """SQL for the step before the load of these statements, whose texts for pgbench are `scripts`. Keys are drawn as
    often as they are sampled, because a calibration in each run would hide the effect of a change."""
    used = {(kind, int(number)) for text in scripts for kind, number in _USED.findall(text)}
    domains = {each.number: each for table in schema.tables.values() for each in table.domains.values()}
    tables = {table for each in parsed for table in each.tables}
    columns = [column for each in parsed for column in each.columns()]
    columns += [domains[number] for _, number in used]
    presence = _presence_sql(tables, {(each.table, each.column.name) for each in columns})
    statements = [presence, f"drop schema if exists {OWN_SCHEMA} cascade", f"create schema {OWN_SCHEMA}"]
    for kind, number in sorted(used):
        make = _values if kind == "value" else _sequence
        statements += make(domains[number], schema.tables[domains[number].table].captured.rows)
    for choice in choices:
        key = choice.columns[0].table if choice.columns else None
        rows = schema.tables[key].captured.rows if key else 0
        statements += calibration.keys(choice, _sample(qualified(key), rows) if key and rows > SAMPLED else "")
        statements += calibration.functions(choice)
    return ";\n".join(statements) + ";\n"


def _presence_sql(tables: Collection[Key], columns: Collection[tuple[Key, str]]) -> str:
    """Raises an error that names the tables that are missing, and the missing columns of the others."""
    paths = sorted([*((table, "") for table in tables), *columns])
    rows = ", ".join(
        f"({literal(qualified(table))}, {literal(name)}, {literal('.'.join(filter(None, (*table, name))))})"
        for table, name in paths
    )
    body = (
        "declare missing text; begin select string_agg(path, ', ' order by path) into missing from"
        f" (values {rows}) as needed(relation, attribute, path) where case attribute"
        " when '' then to_regclass(relation) is null"
        " else to_regclass(relation) is not null and not exists (select from pg_attribute where"
        " attrelid = to_regclass(relation) and attname = attribute and attnum > 0 and not attisdropped) end;"
        " if missing is not null then"
        " raise exception 'the data set lacks tables or columns of the captured database: %',"
        f" missing using hint = {literal(HINT)}; end if; end"
    )
    return f"do language plpgsql {literal(body)}" if paths else "select 1"


def _values(of: Domain, rows: int) -> Iterator[str]:
    """The function is immutable although it reads a table: the sample never changes, so the planner may call it in
    advance."""
    column, table, keys = ident(of.column.name), qualified(of.table), f"{OWN_SCHEMA}.keys_{of.number}"
    sample = _sample(table, rows) if rows > SAMPLED else ""
    yield f"create table {keys} as {_numbered(of, f'{table}{sample} where {column} is not null')}"
    if sample:  # which may have no row with a value, although some rows have one
        source = f"{table} where {column} is not null and not exists (select from {keys})"
        yield f"insert into {keys} {_numbered(of, source)}"
    yield f"alter table {keys} add primary key (n)"
    body = (
        f"select v from {keys} where n = 1 + (least(r, {of.distinct}) - 1) * (select max(n) from {keys})"
        f" / {of.distinct}"
    )
    yield (
        f"create function {of.function}(r bigint) returns {of.type} language sql immutable strict parallel safe"
        f" as {literal(body)}"
    )


def _numbered(of: Domain, source: str) -> str:
    """A query for values of the column from these rows, with numbers in their order."""
    order = "v::text" if of.column.base == "json" else "v"  # json has no order
    values = f"select {ident(of.column.name)} as v from {source} limit {2 * SAMPLED}"
    return f"select row_number() over (order by {order}) as n, v from ({values}) sample"


def _sample(table: str, rows: int) -> str:
    """TABLESAMPLE of about SAMPLED rows. The data may have fewer rows than production, which has `rows`."""
    method = "system" if rows > LARGE else "bernoulli"
    count = f"case when reltuples > 0 then reltuples else {rows} end"
    percent = f"select least(100, {100 * SAMPLED} / {count}) from pg_class where oid = {literal(table)}::regclass"
    return f" tablesample {method} (({percent})) repeatable (1)"


def _sequence(of: Domain, _: int) -> Iterator[str]:
    yield f"create sequence {of.sequence} cache 20"
    if of.is_number:
        newest = f"greatest(coalesce(max({ident(of.column.name)}), 0), 0)::bigint + 1"
        yield f"select setval({literal(of.sequence)}, {newest}, false) from {qualified(of.table)}"
