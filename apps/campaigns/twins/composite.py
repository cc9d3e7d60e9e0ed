"""Keys and foreign keys of several columns. Pure.

A table with one gets a table of its own in the twin's schema, with the key columns of each row, before its rows are
inserted. So rows that refer to it have the columns of one of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apps.campaigns.twins.columns import Domain, coprime
from apps.campaigns.twins.names import OWN_SCHEMA, Key, ident
from apps.campaigns.twins.rows import LOOSE, by_share, hashed
from readers.twin.model import ForeignKey

COUNTED = 0.9  # the frequencies of counters with at least this sum show how large groups are
SPARSE = 4  # values per row of a group, from which each group has other ones


@dataclass(frozen=True)
class Composite:
    """The key of a table: rows with the same `lead`, or the same row of the parent of `lead_reference`, are a group and
    differ in the `counter`. `others`: more foreign keys of several columns. A table may have only these."""

    lead: Domain | None
    lead_reference: ForeignKey | None
    counter: Domain | None
    others: tuple[ForeignKey, ...]

    @property
    def references(self) -> tuple[ForeignKey, ...]:
        return (*((self.lead_reference,) if self.lead_reference else ()), *self.others)


def plan(
    domains: Mapping[str, Domain],
    key: Sequence[str],
    references: Sequence[ForeignKey],
    planned: Mapping[Key, Composite | None],
) -> Composite | None:
    """How the key columns are generated; None if they are not generated here. `planned`: the parents."""
    possible = [each for each in references if planned.get((each.to_schema, each.to_table))]
    lead_reference = next((each for each in possible if set(each.columns) < set(key)), None)
    lead = None
    rest = [name for name in key if not lead_reference or name not in lead_reference.columns]
    if key and not lead_reference:
        lead = max((domains[name] for name in key), key=lambda each: abs(each.correlation))
        rest.remove(lead.column.name)
    if len(rest) > 1 or (key and not rest):
        return None
    others = []
    for each in possible:
        pairs = dict(zip(each.columns, each.to_columns, strict=True))
        parent = planned[each.to_schema, each.to_table]
        shared = lead is not None and pairs.get(lead.column.name)
        is_same = parent is not None and parent.lead is not None and shared == parent.lead.column.name
        if each is not lead_reference and (is_same or not key):
            others.append(each)
    counter = domains[rest[0]] if key else None
    return Composite(lead, lead_reference, counter, tuple(others)) if key or others else None


def name(domains: Mapping[str, Domain]) -> str:
    """The table with the key columns of the rows."""
    return f"{OWN_SCHEMA}.rows_{next(iter(domains.values())).number}"


def stored(column: str) -> str:
    """The name of a key column in this table, which has others as well."""
    return ident(f"c_{column}")


def columns(composite: Composite) -> list[str]:
    """The columns that it has, besides i (the row), g (the group) and n (the number in the group, from 0)."""
    own = [each.column.name for each in (composite.lead, composite.counter) if each]
    return list(dict.fromkeys([*own, *(name for each in composite.references for name in each.columns)]))


def create(
    composite: Composite, domains: Mapping[str, Domain], rows: int, parents: Mapping[Key, tuple[str, int]]
) -> Iterator[str]:
    """CREATE TABLE. `parents`: the names and the numbers of rows of such tables that exist already."""
    values: dict[str, str] = {}
    joins: list[str] = []
    if composite.lead_reference:
        path = (composite.lead_reference.to_schema, composite.lead_reference.to_table)
        joins.append(f"join {parents[path][0]} p on p.i = s.g")
        values |= _of_parent(composite.lead_reference, "p")
    if composite.lead:
        values[composite.lead.column.name] = composite.lead.value("s.g")
    if composite.counter:
        values[composite.counter.column.name] = composite.counter.value(_counter(composite.counter, rows))
    for n, each in enumerate(composite.others):
        table, count = parents[each.to_schema, each.to_table]
        own = {column: value for column, value in _of_parent(each, f"q{n}").items() if column not in values}
        shared = [(column, to) for column, to in zip(each.columns, each.to_columns, strict=True) if column in values]
        share = hashed(domains[each.columns[-1]], 5, "s.i")
        if shared:
            (column, to), *_ = shared
            sizes = f"(select {stored(to)} as lead, max(n) + 1 as size from {table} group by 1)"
            joins.append(f"left join {sizes} z{n} on z{n}.lead = {values[column]}")
            number = f"floor({share} * z{n}.size)::bigint"
            joins.append(f"left join {table} q{n} on q{n}.{stored(to)} = z{n}.lead and q{n}.n = {number}")
        else:
            position = "(s.i - 0.5)" + f" / {rows}.0" if _is_ordered(domains, each) else share
            joins.append(f"left join {table} q{n} on q{n}.i = 1 + floor({position} * {count})::bigint")
        values |= {column: _nullable(domains[column], value, rows) for column, value in own.items()}
    selected = ", ".join(f"({value})::{domains[column].type} as {stored(column)}" for column, value in values.items())
    source = f"({_groups(composite, domains, rows, parents)}) s {' '.join(joins)}"
    yield f"create table {name(domains)} as select s.i, s.g, s.n, {selected} from {source}"
    yield f"analyze {name(domains)}"


def _of_parent(reference: ForeignKey, alias: str) -> dict[str, str]:
    return {own: f"{alias}.{stored(to)}" for own, to in zip(reference.columns, reference.to_columns, strict=True)}


def _is_ordered(domains: Mapping[str, Domain], reference: ForeignKey) -> bool:
    return any(abs(domains[column].correlation) >= 0.5 for column in reference.columns)


def _nullable(of: Domain, value: str, rows: int) -> str:
    known = f"coalesce({value}, {of.value('1')})" if of.column.not_null else value
    return f"case when {hashed(of, 3, 's.i')} < {of.null_frac!r} then null else {known} end" if of.null_frac else known


def _counter(of: Domain, rows: int) -> str:
    """The rank of the counter. Keys that are unique in the whole table are numbered through."""
    if of.distinct >= 0.9 * rows:
        return "s.i"
    scattered = (
        f"(floor({hashed(of, 6, 's.g')} * {of.distinct})::bigint + s.n * {coprime(of.distinct)}) % {of.distinct}"
    )
    return f"1 + case when s.largest * {SPARSE} < {of.distinct} then {scattered} else s.n end"


def _groups(
    composite: Composite, domains: Mapping[str, Domain], rows: int, parents: Mapping[Key, tuple[str, int]]
) -> str:
    """A query for i, g, n and the size of the largest group."""
    if composite.counter is None:
        return f"select i, 0 as g, 0 as n, 0 as largest from generate_series(1::bigint, {rows}) i"
    members = _members(composite, rows, parents)
    order = f"row_number() over (order by {_order(composite, domains)}) as i"
    return f"select {order}, g, n, max(n) over () + 1 as largest from ({members}) members"


def _members(composite: Composite, rows: int, parents: Mapping[Key, tuple[str, int]]) -> str:
    """A query for the group g and the number n in it of each row."""
    share = f"((i - 0.5) / {rows}.0)::float8"
    if composite.lead_reference:
        count = parents[composite.lead_reference.to_schema, composite.lead_reference.to_table][1]
        sizes = group_sizes(composite, rows)
        if sizes and sizes[0] <= count:
            counts = f"unnest('{{{','.join(map(str, sizes))}}}'::bigint[]) with ordinality as sizes(size, k)"
            group = f"1 + (m * {coprime(count)}) % {count}"
            return f"select {group} as g, k - 1 as n from {counts}, generate_series(1, size) m"
        group = f"1 + floor({share} * {count})::bigint"
    elif composite.lead and composite.lead.is_skewed:
        group = f"{by_share(composite.lead)}({share})"
    else:
        group = f"1 + floor({share} * {composite.lead.distinct if composite.lead else 1})::bigint"
    grouped = f"select i, {group} as g from generate_series(1::bigint, {rows}) i"
    return f"select g, row_number() over (partition by g order by i) - 1 as n from ({grouped}) grouped"


def group_sizes(composite: Composite, rows: int) -> list[int]:
    """How many groups have at least 1, 2, ... rows, if the frequencies of counters show it."""
    counter = composite.counter
    if composite.lead_reference is None or counter is None or counter.covered < COUNTED:
        return []
    return [round(each * rows) for each in counter.frequencies]


def _order(composite: Composite, domains: Mapping[str, Domain]) -> str:
    """Of the rows in the table: by groups, or scattered."""
    leads = composite.lead_reference.columns if composite.lead_reference else ()
    own = (composite.lead.column.name,) if composite.lead else ()
    if max(abs(domains[each].correlation) for each in (*leads, *own)) >= LOOSE:
        return "g, n"
    return f"{OWN_SCHEMA}.hash(g, n)"
