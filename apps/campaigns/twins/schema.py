"""The data set of a twin: the tables of a capture, with synthetic rows, as steps of SQL. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from apps.campaigns.twins import columns, composite, rows
from apps.campaigns.twins.columns import ARRAYS, INTEGERS, Domain, is_supported
from apps.campaigns.twins.composite import Composite
from apps.campaigns.twins.names import OWN_SCHEMA, Key, ident, idents, literal, packed, qualified
from readers.twin.model import Capture, Column, ForeignKey, Index, Statistics, Table

MOST_PARENTS = 50  # of keys of several columns, one after another
NEARLY_ALL = 0.95  # this share of the parents counts as all, because n_distinct is an estimate
METHODS = ("btree", "hash", "gin", "gist", "brin", "spgist")
DEEPEST = 50  # foreign keys from column to column
ROUNDED = (*INTEGERS, "numeric", "date")  # values between histogram bounds may be equal, so a key has none
WITH_GIN = ("jsonb", *ARRAYS)  # supported types with an operator class of gin, without an extension


@dataclass
class TwinTable:
    """A table of the twin with `count` rows. `composite`: the columns of its key, if the key has several. `room`: the
    share of its pages that have room for new versions of updated rows. `keys`: how its keys and foreign keys of several
    columns are generated, if their rows depend on each other."""

    captured: Table
    count: int
    domains: dict[str, Domain] = field(default_factory=dict)
    composite: tuple[str, ...] = ()
    room: float = 0.0
    keys: Composite | None = None

    @property
    def key(self) -> Key:
        return (self.captured.schema, self.captured.name)

    @property
    def has_unique(self) -> bool:
        """Whether foreign keys may refer to each of its rows."""
        return any(each.unique for each in self.domains.values())

    @property
    def with_sequence(self) -> list[Domain]:
        """The columns whose new values come from a sequence: unique columns, and an integer of a composite key."""
        integer = next((name for name in self.composite if self.domains[name].takes_any_integer), None)
        return [each for each in self.domains.values() if each.unique or each.column.name == integer]


@dataclass
class Schema:
    """The tables of a twin. `missing`: parts of the capture that it lacks."""

    tables: dict[Key, TwinTable]
    indexes: list[Index]
    foreign_keys: list[ForeignKey]
    missing: list[str]

    @cached_property
    def by_name(self) -> dict[str, list[Key]]:
        """The tables of each name, in all schemas."""
        keys: dict[str, list[Key]] = {}
        for key in self.tables:
            keys.setdefault(key[1], []).append(key)
        return keys


def schema(capture: Capture, factor: float) -> Schema:
    """The tables with `factor` times the rows of production."""
    missing: list[str] = []
    referenced = {(each.to_schema, each.to_table) for each in capture.foreign_keys}
    tables = {
        (each.schema, each.name): TwinTable(
            each,
            _count(each, factor, (each.schema, each.name) in referenced),
            room=rows.pages_with_room(each, capture.updates.get((each.schema, each.name))),
        )
        for each in capture.tables
    }
    indexes = [each for each in capture.indexes if _can_be_created(each, tables, missing)]
    order = _Domains(capture, tables, indexes).fill()
    missing += [
        f"index {qualified((each.schema, each.name))}: created without its predicate"
        for each in indexes
        if each.partial
    ]
    missing += [
        f"index {qualified((each.schema, each.name))}: created without UNIQUE"
        for each in indexes
        if each.unique and not each.partial and not _is_unique(each, tables[each.schema, each.table])
    ]
    foreign_keys = [each for each in capture.foreign_keys if _is_satisfied(each, tables, missing)]
    for table in tables.values():
        columns = [each.column for each in table.domains.values() if not each.supported]
        missing += [f"{qualified(table.key)}.{ident(each.name)}: type {each.type}, created as text" for each in columns]
    return Schema({key: tables[key] for key in order}, indexes, foreign_keys, missing)


def _count(table: Table, factor: float, is_referenced: bool) -> int:
    """Rows of the table in the twin. A referenced table has at least one: small tables are often never analyzed."""
    return max(1, round(table.rows * factor)) if table.rows or is_referenced else 0


def _can_be_created(index: Index, tables: Mapping[Key, TwinTable], missing: list[str]) -> bool:
    reason = _obstacle(index, {each.name: each for each in tables[index.schema, index.table].captured.columns})
    if reason:
        missing.append(f"index {qualified((index.schema, index.name))}: {reason}")
    return not reason


def _obstacle(index: Index, columns: Mapping[str | None, Column]) -> str:
    """Why the index cannot be created; "" if it can."""
    if index.expressions or not all(each.name in columns for each in index.columns):
        return "it has an expression"
    if index.method not in METHODS:
        return f"its access method is {index.method}"
    keys = [(each.opclass, columns[each.name]) for each in index.columns[: index.keys]]
    if index.method == "gin" and not all(column.base in WITH_GIN and is_supported(column) for _, column in keys):
        return "no operator class of gin for its columns"
    if index.method == "gist" and not all(opclass and is_supported(column) for opclass, column in keys):
        return "no operator class of gist for its columns"
    return ""


def _is_satisfied(key: ForeignKey, tables: Mapping[Key, TwinTable], missing: list[str]) -> bool:
    """Whether the rows satisfy the foreign key: its only column has values of the column that it refers to, or its
    columns have those of a row."""
    keys = tables[key.schema, key.table].keys
    if keys is not None and key in keys.references:
        return True
    child = tables[key.schema, key.table].domains.get(key.columns[0]) if len(key.columns) == 1 else None
    parent = child.parent if child else None
    path = (*parent.table, parent.column.name) if parent else None
    if parent is None or not parent.unique or path != (key.to_schema, key.to_table, *key.to_columns):
        missing.append(f"foreign key of {qualified((key.schema, key.table))} ({idents(key.columns)})")
        return False
    return True


class _Domains:
    """Fills in the domains of all tables. Columns that foreign keys refer to come first."""

    def __init__(self, capture: Capture, tables: dict[Key, TwinTable], indexes: Sequence[Index]) -> None:
        self._tables = tables
        self._statistics = {(each.schema, each.table, each.column): each for each in capture.statistics}
        self._unique = {
            (each.schema, each.table, each.columns[0].name)
            for each in indexes
            if each.unique and not each.partial and each.keys == 1 and each.columns
        }
        self._references = {
            (each.schema, each.table, each.columns[0]): (each.to_schema, each.to_table, each.to_columns[0])
            for each in capture.foreign_keys
            if len(each.columns) == len(each.to_columns) == 1
        }
        self._composites = {
            (each.schema, each.table): tuple(str(column.name) for column in each.columns[: each.keys])
            for each in sorted(indexes, key=lambda index: index.primary)
            if each.unique and not each.partial and each.keys > 1
        }
        self._of_several: dict[Key, list[ForeignKey]] = {}
        self._referred: set[tuple[Key, frozenset[str]]] = set()  # the columns that such keys refer to
        for each in capture.foreign_keys:
            if len(each.columns) == len(each.to_columns) > 1:
                self._of_several.setdefault((each.schema, each.table), []).append(each)
                self._referred.add(((each.to_schema, each.to_table), frozenset(each.to_columns)))
                for column, to in zip(each.columns, each.to_columns, strict=True):
                    self._references.setdefault((each.schema, each.table, column), (each.to_schema, each.to_table, to))
        self._number, self._busy = 0, set[tuple[str, str, str]]()

    def fill(self) -> list[Key]:
        """Return the tables, parents of keys of several columns first."""
        for table in self._tables.values():
            for column in table.captured.columns:
                self._domain(table, column)
        planned: dict[Key, Composite | None] = {}
        order: list[Key] = []
        for key in self._tables:
            self._plan(key, planned, order, MOST_PARENTS)
        for table in self._tables.values():
            if table.keys is None:
                self._set_composite(table)
        return order

    def _plan(self, key: Key, planned: dict[Key, Composite | None], order: list[Key], depth: int) -> None:
        """Parents first. A table that leads back to itself, or through too many parents, has no plan."""
        if key in planned or not depth:
            return
        planned[key] = None
        references = self._of_several.get(key, [])
        for each in references:
            self._plan((each.to_schema, each.to_table), planned, order, depth - 1)
        order.append(key)
        table, names = self._tables[key], self._composites.get(key, ())
        if any(table.domains[name].unique for name in names):
            names = ()
        is_parent = len(names) == 2 and (key, frozenset(names)) in self._referred
        if not table.count or not (references or is_parent):
            return
        for name in names:
            self._make_injective(table, name)
        table.keys = planned[key] = composite.plan(table.domains, names, references, planned)
        sizes = composite.group_sizes(table.keys, table.count) if table.keys else []
        table.count = sum(sizes) or table.count

    def _domain(self, table: TwinTable, column: Column) -> Domain:
        if column.name in table.domains:
            return table.domains[column.name]
        path = (*table.key, column.name)
        self._busy.add(path)
        self._number += 1
        statistics = self._statistics.get(path)
        domain = columns.domain(table.key, column, self._number, table.count, statistics)
        unique = path in self._unique and table.count <= columns.capacity(column)
        if unique:
            distinct = max(1, table.count)
            domain = replace(
                domain, unique=True, distinct=distinct, frequencies=(), edges=(), null_frac=0.0, common_values=()
            )
        parent = self._parent(path)
        if parent is not None:
            domain = _child(domain, parent, self._tables[parent.table].captured.rows, statistics, table)
        elif unique and column.base in ROUNDED:
            domain = replace(domain, is_key=column.base != "date", bounds=())
        table.domains[column.name] = domain
        self._busy.remove(path)
        return domain

    def _parent(self, path: tuple[str, str, str]) -> Domain | None:
        """The column that a foreign key of this column refers to; None if that leads back to this column, or too far
        away."""
        reference = self._references.get(path)
        if reference is None or reference in self._busy or len(self._busy) >= DEEPEST:
            return None
        table = self._tables[reference[:2]]
        column = next((each for each in table.captured.columns if each.name == reference[2]), None)
        return self._domain(table, column) if column else None

    def _set_composite(self, table: TwinTable) -> None:
        names = self._composites.get(table.key, ())
        if not names or any(table.domains[name].unique for name in names):
            return
        combinations = math.prod(table.domains[name].distinct for name in names)
        if combinations < table.count and table.has_unique:
            return
        table.composite, table.count = names, min(table.count, combinations)
        for name in names:
            self._make_injective(table, name)
            table.domains[name] = replace(table.domains[name], ordered=True)

    @staticmethod
    def _make_injective(table: TwinTable, name: str) -> None:
        """Different ranks get different values."""
        domain = table.domains[name]
        bounds = () if domain.column.base in ROUNDED else domain.bounds
        table.domains[name] = replace(domain, bounds=bounds, common_values=())


def _child(of: Domain, parent: Domain, parents_rows: int, statistics: Statistics | None, table: TwinTable) -> Domain:
    """The column with values of its parent: the same share of all parents as in production."""
    if not parent.unique:  # a column of a key of several columns: both have the same values
        return replace(of, parent=parent, distinct=parent.distinct, edges=(), bounds=())
    distinct, unique = min(of.distinct, parent.distinct), of.unique
    if statistics is not None and parents_rows:
        n = statistics.n_distinct
        share = min(1.0, (-n * table.captured.rows if n < 0 else n) / parents_rows)
        distinct = parent.distinct if share >= NEARLY_ALL else max(1, round(parent.distinct * share))
    if unique and table.count > parent.distinct:
        unique = not table.has_unique
        table.count = parent.distinct if unique else table.count
    if unique:
        distinct = max(1, table.count)
    frequencies = of.frequencies[:distinct]
    return replace(of, parent=parent, distinct=distinct, unique=unique, frequencies=frequencies, bounds=())


def steps(schema: Schema) -> list[dict[str, Any]]:
    """The steps of a data set of kind sql, in order."""
    tables = list(schema.tables.values())
    return [
        *packed("schema", _definitions(schema)),
        *(
            {"name": f"rows-{number}", "sql": _rows(each, schema)}
            for number, each in enumerate(tables, start=1)
            if each.count and each.domains
        ),
        *packed("keys", _keys(schema)),
        *packed("foreign-keys", [*map(_foreign_key, schema.foreign_keys), *_drops(schema)]),
        {"name": "vacuum", "sql": "vacuum analyze", "transaction": False},
    ]


def _rows(table: TwinTable, schema: Schema) -> str:
    domains, keys, before = list(table.domains.values()), None, ""
    if table.keys:
        parents = {
            key: (composite.name(parent.domains), parent.count)
            for key, parent in schema.tables.items()
            if parent.keys and parent is not table
        }
        before = "".join(f"{each};\n" for each in composite.create(table.keys, table.domains, table.count, parents))
        keys = (composite.name(table.domains), composite.columns(table.keys))
    columns = [table.domains[name] for name in table.composite]
    return before + rows.insert(table.key, domains, table.count, columns, table.room, keys)


def _definitions(schema: Schema) -> Iterator[str]:
    yield f"create schema {OWN_SCHEMA}"
    domains = [each for table in schema.tables.values() for each in table.domains.values()]
    enums = {(each.column.type_schema, each.column.base): each for each in domains if each.column.kind == "e"}
    for name in sorted({key[0] for key in (*schema.tables, *enums)} - {"public"}):
        yield f"create schema {ident(name)}"
    for key, each in enums.items():
        yield f"create type {qualified(key)} as enum ({', '.join(map(literal, each.column.labels))})"
    for each in sorted(domains, key=_depth):
        if not each.plain:
            yield columns.definition(each)
    yield from rows.functions(domains)
    for table in schema.tables.values():
        yield f"create table {qualified(table.key)} ({', '.join(map(_column, table.domains.values()))})"


def _depth(of: Domain) -> int:
    """The number of parents: their functions are created first."""
    return 0 if of.parent is None else 1 + _depth(of.parent)


def _column(of: Domain) -> str:
    column = of.column
    default = ""
    if column.default in ("sequence", "identity") and of.column.base in INTEGERS and of.is_key:
        default = " generated by default as identity"
    elif column.not_null and column.default:
        default = f" default {of.value('1')}"
    return f"{ident(column.name)} {of.type}{' not null' if column.not_null else ''}{default}"


def _keys(schema: Schema) -> Iterator[str]:
    for table in schema.tables.values():
        for each in table.with_sequence:
            yield f"create sequence {each.sequence} start {table.count + 1} cache 20"
        for each in table.domains.values():
            if each.is_key and each.column.default in ("sequence", "identity") and each.column.base in INTEGERS:
                name = f"pg_get_serial_sequence({literal(qualified(table.key))}, {literal(each.column.name)})"
                yield f"select setval({name}, {max(1, table.count)})"
    for index in schema.indexes:
        yield _index(index, schema.tables[index.schema, index.table])


def _key_of(keys: Composite) -> set[str]:
    """The columns of which no two rows have the same values."""
    own = {each.column.name for each in (keys.lead, keys.counter) if each}
    return own | set(keys.lead_reference.columns if keys.lead_reference else ())


def _drops(schema: Schema) -> Iterator[str]:
    for table in schema.tables.values():
        if table.keys and table.domains:
            yield f"drop table {composite.name(table.domains)}"


def _is_unique(index: Index, table: TwinTable) -> bool:
    """Whether the rows satisfy a unique index on these columns."""
    keys = tuple(str(each.name) for each in index.columns[: index.keys])
    planned = table.keys and table.keys.counter and set(keys) >= _key_of(table.keys)
    return bool(planned) or keys == table.composite or (len(keys) == 1 and table.domains[keys[0]].unique)


def _index(index: Index, table: TwinTable) -> str:
    """CREATE INDEX, or the primary key. UNIQUE only if the rows satisfy it."""
    names = tuple(str(each.name) for each in index.columns)
    keys = names[: index.keys]
    unique = index.unique and not index.partial and _is_unique(index, table)
    if index.primary and unique and len(names) == len(keys):
        return f"alter table {qualified(table.key)} add constraint {ident(index.name)} primary key ({idents(keys)})"
    parts = []
    for each in index.columns[: index.keys]:
        opclass = f" {ident(each.opclass)}" if each.opclass and table.domains[str(each.name)].supported else ""
        order = f"{' desc' * each.descending} nulls {'first' if each.nulls_first else 'last'}"
        parts.append(f"{ident(str(each.name))}{opclass}{order if index.method == 'btree' else ''}")
    include = f" include ({idents(names[index.keys :])})" if len(names) > len(keys) else ""
    create = f"create {'unique ' * unique}index {ident(index.name)} on {qualified(table.key)}"
    return f"{create} using {index.method} ({', '.join(parts)}){include}"


def _foreign_key(key: ForeignKey) -> str:
    actions = {"c": " on delete cascade", "n": " on delete set null", "d": " on delete set default"}
    table, parent = qualified((key.schema, key.table)), qualified((key.to_schema, key.to_table))
    return (
        f"alter table {table} add foreign key ({idents(key.columns)}) references {parent} ({idents(key.to_columns)})"
        f"{actions.get(key.on_delete, '')}{' not valid' * (len(key.columns) > 1)}"
    )
