"""The data set of a twin: the tables of a capture, with synthetic rows, as steps of SQL. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apps.campaigns.twins import columns, rows
from apps.campaigns.twins.columns import INTEGERS, Domain
from apps.campaigns.twins.names import HOME, Key, ident, idents, literal, qualified
from readers.twin.model import Capture, Column, ForeignKey, Index, Table

LONGEST_STEP = 24_000  # characters; a step of a data set may have 30,000
NEARLY_ALL = 0.95  # of the parents: n_distinct is an estimate
METHODS = ("btree", "hash", "gin", "gist", "brin", "spgist")


@dataclass
class Made:
    """A table of the twin. `composite`: names of the columns that are its key together."""

    table: Table
    count: int
    domains: dict[str, Domain] = field(default_factory=dict)
    composite: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return (self.table.schema, self.table.name)


@dataclass
class Schema:
    """All tables of a twin, and what of the capture it does not have."""

    tables: dict[Key, Made]
    indexes: list[Index]
    foreign_keys: list[ForeignKey]
    missing: list[str]

    def domain(self, key: Key, column: str) -> Domain | None:
        made = self.tables.get(key)
        return made.domains.get(column) if made else None


def schema(capture: Capture, factor: float) -> Schema:
    """The tables with `factor` times the rows of production."""
    missing: list[str] = []
    tables = {
        (each.schema, each.name): Made(each, max(1, round(each.rows * factor)) if each.rows else 0)
        for each in capture.tables
    }
    indexes = [each for each in capture.indexes if _is_made(each, tables, missing)]
    _Domains(capture, tables, indexes).fill()
    kept = [each for each in capture.foreign_keys if _is_kept(each, tables, missing)]
    for made in tables.values():
        unknown = [each.column for each in made.domains.values() if not each.known]
        missing += [f"{qualified(made.key)}.{ident(each.name)}: type {each.type}, made as text" for each in unknown]
    return Schema(tables, indexes, kept, missing)


def _is_made(index: Index, tables: Mapping[Key, Made], missing: list[str]) -> bool:
    names = {each.name for each in tables[index.schema, index.table].table.columns}
    plain = not index.expressions and not index.partial and all(each.name in names for each in index.columns)
    if not plain or index.method not in METHODS:
        missing.append(f"index {ident(index.schema)}.{ident(index.name)}: it has an expression or a predicate")
        return False
    return True


def _is_kept(key: ForeignKey, tables: Mapping[Key, Made], missing: list[str]) -> bool:
    parent = tables[key.to_schema, key.to_table].domains.get(key.to_columns[0]) if key.to_columns else None
    if len(key.columns) != 1 or parent is None or not parent.unique:
        missing.append(f"foreign key of {qualified((key.schema, key.table))} ({idents(key.columns)})")
        return False
    return True


class _Domains:
    """Fills in the domains of all tables; a parent's before those of its children."""

    def __init__(self, capture: Capture, tables: dict[Key, Made], indexes: Sequence[Index]) -> None:
        self._tables, self._given = tables, {(s.schema, s.table, s.column): s for s in capture.statistics}
        self._unique = {
            (each.schema, each.table, each.columns[0].name)
            for each in indexes
            if each.unique and each.keys == 1 and each.columns
        }
        self._parents = {
            (each.schema, each.table, each.columns[0]): each for each in capture.foreign_keys if len(each.columns) == 1
        }
        self._together = {
            (each.schema, each.table): tuple(str(column.name) for column in each.columns[: each.keys])
            for each in sorted(indexes, key=lambda index: index.primary)
            if each.unique and each.keys > 1
        }
        self._number, self._busy = 0, set[tuple[str, str, str]]()

    def fill(self) -> None:
        for key, made in self._tables.items():
            for column in made.table.columns:
                self._of(key, column)
            self._together_of(key, made)

    def _of(self, key: Key, column: Column) -> Domain:
        made, place = self._tables[key], (*key, column.name)
        known = made.domains.get(column.name)
        if known:
            return known
        self._busy.add(place)
        self._number += 1
        number = self._number
        found = columns.domain(key, column, number, made.count, self._given.get(place))
        unique = place in self._unique
        if unique:
            found = replace(found, unique=True, distinct=max(1, made.count), frequencies=(), null_frac=0.0)
        parent = self._parent(place)
        if parent is not None:
            found = _child(found, parent, self._tables[parent.table].table.rows, self._given.get(place), made)
        elif unique and column.base in (*INTEGERS, "numeric"):
            found = replace(found, is_key=True, bounds=())
        made.domains[column.name] = found
        return found

    def _parent(self, place: tuple[str, str, str]) -> Domain | None:
        key = self._parents.get(place)
        if key is None or (key.to_schema, key.to_table, key.to_columns[0]) in self._busy - _done(self._tables):
            return None
        parent = self._tables[key.to_schema, key.to_table]
        column = next((each for each in parent.table.columns if each.name == key.to_columns[0]), None)
        return self._of(parent.key, column) if column else None

    def _together_of(self, key: Key, made: Made) -> None:
        names = self._together.get(key, ())
        if not names or any(made.domains[name].unique for name in names):
            return
        made.composite = names
        for name in names:
            made.domains[name] = replace(made.domains[name], ordered=True)
        made.count = min(made.count, math.prod(made.domains[name].distinct for name in names))


def _done(tables: Mapping[Key, Made]) -> set[tuple[str, str, str]]:
    return {(*key, name) for key, made in tables.items() for name in made.domains}


def _child(of: Domain, parent: Domain, parents_rows: int, given: Any, made: Made) -> Domain:
    """As many distinct parents, in proportion to all of them, as in production."""
    distinct = of.distinct
    if given is not None and parents_rows:
        n = given.n_distinct
        found = -n * made.table.rows if n < 0 else n
        share = min(1.0, found / parents_rows)
        distinct = parent.distinct if share >= NEARLY_ALL else max(1, round(parent.distinct * share))
    if of.unique:
        made.count = min(made.count, parent.distinct)
        distinct = max(1, made.count)
    return replace(of, parent=parent, distinct=distinct, frequencies=of.frequencies[:distinct], bounds=())


def steps(made: Schema) -> list[dict[str, Any]]:
    """The steps of a data set of kind sql, in order."""
    tables = list(made.tables.values())
    return [
        *_packed("schema", _definitions(made)),
        *({"name": f"rows-{number}", "sql": _rows(each)} for number, each in enumerate(tables, start=1) if each.count),
        *_packed("keys", _keys(made)),
        *_packed("foreign-keys", map(_foreign_key, made.foreign_keys)),
        {"name": "vacuum", "sql": "vacuum analyze", "transaction": False},
    ]


def _rows(made: Made) -> str:
    composite = [made.domains[name] for name in made.composite]
    return rows.insert(made.key, list(made.domains.values()), made.count, composite)


def _packed(name: str, statements: Iterator[str] | map[str]) -> list[dict[str, Any]]:
    """Statements in as few steps as their length allows."""
    packs: list[list[str]] = []
    for statement in statements:
        if not packs or sum(map(len, packs[-1])) + len(statement) > LONGEST_STEP:
            packs.append([])
        packs[-1].append(statement)
    return [{"name": f"{name}-{n}", "sql": ";\n".join(pack)} for n, pack in enumerate(packs, start=1)]


def _definitions(made: Schema) -> Iterator[str]:
    yield f"create schema {HOME}"
    domains = [each for table in made.tables.values() for each in table.domains.values()]
    enums = {(each.column.type_schema, each.column.base): each for each in domains if each.column.kind == "e"}
    for name in sorted({key[0] for key in (*made.tables, *enums)} - {"public"}):
        yield f"create schema {ident(name)}"
    for key, each in enums.items():
        yield f"create type {qualified(key)} as enum ({', '.join(map(literal, each.column.labels))})"
    for each in sorted(domains, key=_depth):
        if not each.plain:
            yield columns.definition(each)
    for table in made.tables.values():
        yield f"create table {qualified(table.key)} ({', '.join(map(_column, table.domains.values()))})"


def _depth(of: Domain) -> int:
    """Functions of parents come first."""
    return 0 if of.parent is None else 1 + _depth(of.parent)


def _column(of: Domain) -> str:
    column = of.column
    default = ""
    if column.default in ("sequence", "identity") and of.column.base in INTEGERS and of.is_key:
        default = " generated by default as identity"
    elif column.not_null and column.default:
        default = f" default {of.value('1')}"
    return f"{ident(column.name)} {of.type}{' not null' if column.not_null else ''}{default}"


def _keys(made: Schema) -> Iterator[str]:
    for table in made.tables.values():
        for each in table.domains.values():
            if each.unique:
                yield f"create sequence {HOME}.new_{each.number} start {table.count + 1} cache 20"
            if each.is_key and each.column.default in ("sequence", "identity") and each.column.base in INTEGERS:
                name = f"pg_get_serial_sequence({literal(qualified(table.key))}, {literal(each.column.name)})"
                yield f"select setval({name}, {max(1, table.count)})"
    for index in made.indexes:
        yield _index(index, made.tables[index.schema, index.table])


def _index(index: Index, made: Made) -> str:
    """A unique index that the rows were not made for is created without being unique."""
    names = tuple(str(each.name) for each in index.columns)
    keys = names[: index.keys]
    table = qualified(made.key)
    unique = index.unique and (keys == made.composite or (len(keys) == 1 and made.domains[keys[0]].unique))
    if index.primary and unique and len(names) == len(keys):
        return f"alter table {table} add constraint {ident(index.name)} primary key ({idents(keys)})"
    parts = []
    for each in index.columns[: index.keys]:
        opclass = f" {ident(each.opclass)}" if each.opclass and made.domains[str(each.name)].known else ""
        order = f"{' desc' * each.descending} nulls {'first' if each.nulls_first else 'last'}"
        parts.append(f"{ident(str(each.name))}{opclass}{order if index.method == 'btree' else ''}")
    include = f" include ({idents(names[index.keys :])})" if len(names) > len(keys) else ""
    what = f"create {'unique ' * unique}index {ident(index.name)} on {table}"
    return f"{what} using {index.method} ({', '.join(parts)}){include}"


def _foreign_key(key: ForeignKey) -> str:
    actions = {"c": " on delete cascade", "n": " on delete set null", "d": " on delete set default"}
    table, parent = qualified((key.schema, key.table)), qualified((key.to_schema, key.to_table))
    return (
        f"alter table {table} add foreign key ({idents(key.columns)}) references {parent} ({idents(key.to_columns)})"
        f"{actions.get(key.on_delete, '')}"
    )
