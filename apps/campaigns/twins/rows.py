"""The rows of a table of a twin: each column as SQL over the row number i, from 1 to the number of rows. Pure.

Rows are the same each time, because a hash of row number and column replaces random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from apps.campaigns.twins.columns import Domain, coprime
from apps.campaigns.twins.names import OWN_SCHEMA, Key, idents, qualified

ORDERED = 0.98  # with this correlation or more, values are in order
LOOSE = 0.3  # with less, they are in no order


def insert(table: Key, domains: Sequence[Domain], rows: int, composite: Sequence[Domain]) -> str:
    """INSERT of all rows. `composite`: the columns of a key of several columns."""
    ranks = _composite(composite, rows)
    values = ", ".join(_value(each, rows, ranks) for each in domains)
    names = idents([each.column.name for each in domains])
    return f"insert into {qualified(table)} ({names}) select {values} from generate_series(1::bigint, {rows}) i"  # noqa: S608 - names are quoted


def _value(of: Domain, rows: int, ranks: Mapping[str, str]) -> str:
    value = of.value(ranks.get(of.column.name) or rank(of, rows))
    value = value if not of.plain else f"({value})::{of.type}"
    if of.null_frac > 0 and of.column.name not in ranks:
        return f"case when {_hash(of, 3)} < {of.null_frac!r} then null else {value} end"
    return value


def rank(of: Domain, rows: int) -> str:
    """The rank of the value in row i, with the column's frequencies and, roughly, its correlation."""
    if of.unique or of.distinct >= rows:
        if abs(of.correlation) >= 0.5 or rows < 3:
            return "i" if of.correlation >= 0 or rows < 3 else f"{rows + 1} - i"
        return f"1 + (i * {coprime(rows)}) % {rows}"
    position = "(i - 0.5)::float8" if of.correlation >= 0 else f"({rows + 0.5} - i)::float8"
    share, scattered, correlation = f"({position} / {rows})", _hash(of, 1), abs(of.correlation)
    if correlation < LOOSE:
        share = scattered
    elif correlation < ORDERED:
        share = f"(case when {_hash(of, 2)} < {correlation!r} then {share} else {scattered} end)"
    return f"{_by_share(of)}({share})" if of.frequencies else f"1 + floor({share} * {of.distinct})::bigint"


def functions(domains: Sequence[Domain]) -> Iterator[str]:
    """CREATE FUNCTION for the rows of these columns. Not strict, so that the planner can inline them."""
    yield (
        f"create function {OWN_SCHEMA}.hash(i bigint, salt bigint) returns float8 language sql immutable parallel safe"
        " as $hash$ select ((hashint8extended(i, salt) & 9007199254740991) / 9007199254740992.0::float8) $hash$"
    )
    for of in domains:
        if of.frequencies:
            yield (
                f"create function {_by_share(of)}(share float8) returns bigint language sql immutable parallel safe"
                f" as $rank$ select {_rank_by_share(of)} $rank$"
            )


def _by_share(of: Domain) -> str:
    """The name of the function from a share of the rows to a rank."""
    return f"{OWN_SCHEMA}.rank_{of.number}"


def _rank_by_share(of: Domain) -> str:
    """SQL of the rank at a share of the rows from 0 to 1. Frequent values have the first ranks."""
    count, most = of.distinct, len(of.frequencies)
    sums, total = [], 0.0
    for frequency in of.frequencies:
        total = min(1.0, total + frequency)
        sums.append(total)
    bucket = f"width_bucket(share, array[{', '.join(map(repr, sums))}]::float8[])"
    if count <= most or total >= 1:
        return f"least(1 + {bucket}, {min(count, most)})::bigint"
    rest = f"{most} + 1 + floor((share - {total!r}) / {1 - total!r} * {count - most})::bigint"
    return f"case when share < {total!r} then 1 + {bucket} else least({rest}, {count}) end"


def _composite(key: Sequence[Domain], rows: int) -> dict[str, str]:
    """Ranks of the columns of one key, each combination once. The column that is most correlated with the order of the
    rows changes most slowly."""
    ranks: dict[str, str] = {}
    ordered = sorted(key, key=lambda each: -abs(each.correlation))
    scatter = bool(ordered) and abs(ordered[0].correlation) < LOOSE and rows > 2
    position, left = (f"((i * {coprime(rows)}) % {rows})" if scatter else "(i - 1)"), rows
    group = "0"  # of the rows with the same values in the columns so far
    for each in ordered[:-1]:
        per = max(1, -(-left // each.distinct))
        ranks[each.column.name] = f"1 + {position} / {per}"
        group = f"({group} * {-(-left // per)} + {position} / {per})"
        position, left = f"({position} % {per})", per
    return ranks | ({ordered[-1].column.name: f"1 + {_last(ordered[-1], position, group, left)}"} if ordered else {})


def _last(of: Domain, position: str, group: str, left: int) -> str:
    """The rank from 0 of the column that changes fastest. If it has many more values than a group has rows, each group
    begins with another one; else most values would never occur."""
    if of.distinct <= 2 * left:
        return position
    return f"({group} % {of.distinct} * {coprime(of.distinct)} + {position}) % {of.distinct}"


def _hash(of: Domain, salt: int) -> str:
    """A number from 0 to 1 for row i."""
    return f"{OWN_SCHEMA}.hash(i, {of.number * 10 + salt})"
