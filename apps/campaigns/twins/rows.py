"""The rows of a table of a twin: each column as SQL over the row number i, from 1 to the number of rows. Pure.

Rows are the same each time, because a hash of row number and column replaces random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from apps.campaigns.twins.columns import Domain, coprime, floats
from apps.campaigns.twins.names import OWN_SCHEMA, Key, ident, idents, qualified
from readers.twin.model import Table, Updates

ORDERED = 0.999  # with this correlation or more, values are in order
MOVED = 0.9  # with this or more, all but the last rows are in order
LEAST_ROOM = 0.05  # the shares of pages below it, and above 1 minus it, are none and all
PAGE, ROW_HEADER = 8192, 32  # bytes
LOOSE = 0.3  # with less, they are in no order


def insert(
    table: Key,
    domains: Sequence[Domain],
    rows: int,
    composite: Sequence[Domain],
    room: float,
    keys: tuple[str, Collection[str]] | None = None,
) -> str:
    """INSERT of all rows. `composite`: the columns of a key of several columns. `room`: the share of pages that get
    room for new versions of their rows. `keys`: the table with the key columns of each row, and these columns."""
    ranks = _composite(composite, rows)
    made = keys[1] if keys else ()
    values = ", ".join(
        f"k.{ident(f'c_{each.column.name}')}" if each.column.name in made else _value(each, rows, ranks)
        for each in domains
    )
    source = "generate_series({}::bigint, {}) i"
    if keys:
        source = f"(select * from {keys[0]} where i between {{}} and {{}} order by i) k"  # noqa: S608 - the name is ours
    names = idents([each.column.name for each in domains])
    values = values.replace("{", "{{").replace("}", "}}")
    to_insert = f"insert into {qualified(table)} ({names}) select {values} from {source}"  # noqa: S608 - names are quoted
    if room < LEAST_ROOM or rows < 2:
        return to_insert.format(1, rows)
    full = round((1 - room) * rows) if room < 1 - LEAST_ROOM else 0
    # After the full pages, because rows would be inserted into pages with room. The storage parameter keeps the room
    # free for updates in the run.
    with_room = f"alter table {qualified(table)} set (fillfactor = {_fillfactor(domains)})"
    return ";\n".join([to_insert.format(1, full), with_room, to_insert.format(full + 1, rows)][0 if full else 1 :])


def pages_with_room(table: Table, updates: Updates | None) -> float:
    """The share of the pages of a table, 0 to 1, that had room for a new version of a row when the capture began.

    An update on a page without room moves the row, and makes room for the next update there. So of `u` updates per page
    at random, (1 - exp(-u)) / u are the first ones. In a capture of many more, other changes had filled pages again: it
    counts like one of one update per page.
    """
    if updates is None:
        return 0.0
    per_page = min(1.0, updates.rows / max(1, table.pages))
    first = (1 - math.exp(-per_page)) / per_page
    return max(0.0, 1 - (1 - updates.hot / updates.rows) / first)


def _fillfactor(domains: Sequence[Domain]) -> int:
    """It leaves room for at least one more row on each page."""
    row = ROW_HEADER + sum(each.width for each in domains)
    return max(10, math.floor(99 - 100 * 1.1 * row / PAGE))


def _value(of: Domain, rows: int, ranks: Mapping[str, str]) -> str:
    value = of.value(ranks.get(of.column.name) or rank(of, rows))
    value = value if not of.plain else f"({value})::{of.type}"
    if of.null_frac > 0 and of.column.name not in ranks:
        return f"case when {hashed(of, 3)} < {of.null_frac!r} then null else {value} end"
    return value


def rank(of: Domain, rows: int) -> str:
    """The rank of the value in row i, with the column's frequencies and, roughly, its correlation.

    Updates move rows to the end of a table that was loaded in order. So if most rows are in order, the others are the
    last ones.
    """
    if of.unique or of.distinct >= rows:
        return _unique_rank(of, rows)
    scattered, correlation = hashed(of, 1), abs(of.correlation)
    in_order = rows * (1 - _moved(of))
    share = f"((i - 0.5)::float8 / {in_order!r})"
    share = share if of.correlation >= 0 else f"(1 - {share})"
    if correlation < LOOSE:
        share = scattered
    elif correlation < MOVED:
        share = f"(case when {hashed(of, 2)} < {correlation!r} then {share} else {scattered} end)"
    elif correlation < ORDERED:
        share = f"(case when i <= {in_order!r} then {share} else {scattered} end)"
    return f"{by_share(of)}({share})" if of.is_skewed else f"1 + floor({share} * {of.distinct})::bigint"


def _moved(of: Domain) -> float:
    """The share of the rows that updates have moved to the end. If they are in no order there, and the other rows are
    in order, the correlation of ranks is (1 - share)^2."""
    correlation = abs(of.correlation)
    return 1 - math.sqrt(correlation) if MOVED <= correlation < ORDERED else 0.0


def _unique_rank(of: Domain, rows: int) -> str:
    """As `rank`, each rank once."""
    if rows < 3:
        return "i"
    if abs(of.correlation) < 0.5:
        return f"1 + (i * {coprime(rows)}) % {rows}"
    rank, moved = "i", round(_moved(of) * rows)
    if moved:  # the rows of every n-th rank are the last ones
        n, kept = rows // moved, rows - moved
        last = f"{n} * (1 + (i - {kept}) * {coprime(moved)} % {moved})"
        rank = f"(case when i <= {kept} then i + least((i - 1) / {n - 1}, {moved}) else {last} end)"
    return rank if of.correlation >= 0 else f"{rows + 1} - {rank}"


def functions(domains: Sequence[Domain]) -> Iterator[str]:
    """CREATE FUNCTION for the rows of these columns. That of the hash is not strict, so that it can be inlined."""
    yield (
        f"create function {OWN_SCHEMA}.hash(i bigint, salt bigint) returns float8 language sql immutable parallel safe"
        " as $hash$ select ((hashint8extended(i, salt) & 9007199254740991) / 9007199254740992.0::float8) $hash$"
    )
    # The value at x on a line through points whose x are `places` and increase, and whose y are `heights`.
    yield (
        f"create function {OWN_SCHEMA}.interpolated(places float8[], heights float8[], x float8) returns float8"
        " language plpgsql immutable parallel safe as $line$"
        " declare n int := greatest(1, least(width_bucket(x, places), cardinality(places) - 1)); begin"
        " return heights[n] + (heights[n + 1] - heights[n]) * (x - places[n]) / (places[n + 1] - places[n]);"
        " end $line$"
    )
    for of in domains:
        if of.is_skewed:
            yield (
                f"create function {by_share(of)}(share float8) returns bigint language plpgsql immutable"
                f" strict parallel safe as $rank$ begin return {_rankby_share(of)}; end $rank$"
            )


def by_share(of: Domain) -> str:
    """The name of the function from a share of the rows to a rank."""
    return f"{OWN_SCHEMA}.rank_{of.number}"


def _rankby_share(of: Domain) -> str:
    """SQL of the rank at a share of the rows from 0 to 1. Frequent values have the first ranks."""
    count, most = of.distinct, len(of.frequencies)
    sums, total = [], 0.0
    for frequency in of.frequencies:
        total = min(1.0, total + frequency)
        sums.append(total)
    bucket = f"width_bucket(share, {floats(sums)})"
    if count <= most or total >= 1:
        return f"least(1 + {bucket}, {min(count, most)})::bigint"
    part = f"((share - {total!r}) / {1 - total!r})"
    if of.edges:
        parts = len(of.edges) - 1
        part = f"{OWN_SCHEMA}.interpolated({floats(n / parts for n in range(parts + 1))}, {floats(of.edges)}, {part})"
    rest = f"{most} + 1 + floor({part} * {count - most})::bigint"
    if not most:
        return f"least({rest}, {count})"
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


def hashed(of: Domain, salt: int, row: str = "i") -> str:
    """A number from 0 to 1 for a row."""
    return f"{OWN_SCHEMA}.hash({row}, {of.number * 10 + salt})"
