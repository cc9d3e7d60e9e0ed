"""What values a column of a twin has: a function of a rank from 1 to the number of its distinct values. Pure.

The same function makes the rows and the parameters of statements. It grows with the rank where the type has an order,
so that ranges of ranks are ranges of values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from apps.campaigns.twins.names import HOME, Key, ident, is_type, literal
from readers.twin.model import Column, Statistics

MOST_FREQUENCIES = 100
UNKNOWN_WIDTH = 16  # bytes, of texts without statistics
UNKNOWN_DISTINCT = 1000
NEARLY = 0.9
LONGEST = 8000  # characters of a made text
INTEGERS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
TEXTS = ("text", "varchar", "bpchar", "name")
SIMPLE = {
    "bool": "r % 2 = 1",
    "uuid": "md5(r::text)::uuid",
    "inet": "'10.0.0.0'::inet + r",
    "interval": "r * interval '1 second'",
    "time": "time '00:00' + r * interval '1 second'",
    "oid": "r::oid",
}
ARRAYS = {"_int2": 2, "_int4": 4, "_int8": 8, "_text": 8, "_varchar": 8}
DATES = ("date", "timestamp", "timestamptz")
NUMBERS = (*INTEGERS, "numeric", "float4", "float8")
FIRST_DAY = 1_577_836_800  # 2020-01-01, of dates without bounds


@dataclass(frozen=True)
class Domain:
    """The values of a column. `frequencies` are the shares of ranks 1, 2, ... among rows that are not null. `ordered`:
    ranks refer to the keys of the `parent` in order. `known`: values of its type can be made."""

    table: Key
    column: Column
    number: int
    distinct: int
    null_frac: float = 0.0
    frequencies: tuple[float, ...] = ()
    correlation: float = 0.0
    width: int = UNKNOWN_WIDTH
    bounds: tuple[float, ...] = ()
    common_values: tuple[str, ...] = ()
    unique: bool = False
    is_key: bool = False
    parent: Domain | None = None
    ordered: bool = False
    known: bool = True

    @property
    def function(self) -> str:
        return f"{HOME}.value_{self.number}"

    @property
    def type(self) -> str:
        """As in CREATE TABLE; text for a type that cannot be made."""
        if self.column.kind == "e":
            return f"{ident(self.column.type_schema)}.{ident(self.column.base)}"
        return self.column.type if is_made(self.column) else "text"

    @property
    def plain(self) -> bool:
        """Whether the rank itself is the value."""
        return self.is_key and self.column.base in INTEGERS and self.parent is None

    def value(self, rank: str) -> str:
        """SQL of the value with this rank."""
        return rank if self.plain else f"{self.function}({rank})"

    @property
    def covered(self) -> float:
        """The share of the rows whose values are among the frequencies."""
        return min(1.0, sum(self.frequencies))


def is_made(column: Column) -> bool:
    """Whether values of its type can be made."""
    if column.kind == "e":
        return bool(column.labels)
    known = column.base in (*TEXTS, *SIMPLE, *ARRAYS, *DATES, *NUMBERS, "json", "jsonb", "bytea")
    return known and column.builtin and is_type(column.type)


def domain(table: Key, column: Column, number: int, rows: int, given: Statistics | None) -> Domain:
    """The values of a column in a table of so many rows of the twin."""
    base = Domain(table, column, number, max(1, min(rows, UNKNOWN_DISTINCT)), known=is_made(column))
    if given is None:
        return base
    n = given.n_distinct
    distinct = max(1, round(min(-n * rows, rows) if n < 0 else min(n, max(rows, 1))))
    null_frac = 0.0 if column.not_null else given.null_frac
    if distinct >= NEARLY * (1 - null_frac) * rows:
        distinct = max(1, rows)  # a value is hardly ever repeated
    shares = [share / max(1e-9, 1 - given.null_frac) for share in given.frequencies[:MOST_FREQUENCIES]]
    return replace(
        base,
        distinct=min(distinct, _most(column)),
        null_frac=null_frac,
        frequencies=tuple(shares[:distinct]),
        correlation=given.correlation or 0.0,
        width=given.avg_width or UNKNOWN_WIDTH,
        bounds=_bounds(column, given.bounds),
        common_values=given.common_values[:MOST_FREQUENCIES],
    )


def _most(column: Column) -> int:
    """How many values a type of limited length has."""
    length = _length(column)
    return 10 ** min(length, 18) if column.base in TEXTS and length else INTEGERS.get(column.base, 2**62)


def _length(column: Column) -> int:
    found = re.search(r"\((\d+)\)", column.type)
    return int(found[1]) if found and column.base in TEXTS else 0


def _bounds(column: Column, bounds: tuple[str, ...]) -> tuple[float, ...]:
    """Bounds as numbers: seconds since 1970 of dates. None where one of them cannot be read, such as infinity."""
    try:
        read = [_seconds(each) if column.base in DATES else float(each) for each in bounds]
    except ValueError:
        return ()
    finite = column.base in (*DATES, *NUMBERS) and all(map(math.isfinite, read)) and read == sorted(read)
    return tuple(read) if finite and len(read) > 1 and read[0] < read[-1] else ()


def _seconds(text: str) -> float:
    if len(text) == 10:
        return datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).timestamp()
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def definition(of: Domain) -> str:
    """CREATE FUNCTION of its values. Immutable, so that the planner sees a constant."""
    return (
        f"create function {of.function}(r bigint) returns {of.type} language sql immutable strict parallel safe"
        f" as $value$ select ({_expression(of)})::{of.type} $value$"
    )


def _expression(of: Domain) -> str:
    if of.parent is not None:
        return of.parent.value(f"({_parents_rank(of, of.parent)})")
    made = _made(of)
    if of.common_values and of.column.kind != "e" and of.known:
        common = ", ".join(map(literal, of.common_values))
        made = (
            f"case when r <= {len(of.common_values)} then (array[{common}])[r]::{of.type} else ({made})::{of.type} end"
        )
    return made


def _parents_rank(of: Domain, parent: Domain) -> str:
    """Ranks of a child that are stored in order refer to parents in order; others are scattered over all parents."""
    if of.ordered or abs(of.correlation) >= 0.5 or of.distinct >= parent.distinct:
        step = parent.distinct / of.distinct
        return "r" if step <= 1 else f"1 + floor((r - 1) * {step!r}::float8)::bigint"
    return f"1 + (r * {coprime(parent.distinct)}) % {parent.distinct}"


def coprime(count: int) -> int:
    """A factor that scatters 1..count over 1..count, each once."""
    factor = max(1, int(count * 0.618033988749895))
    while math.gcd(factor, count) != 1:
        factor += 1
    return factor


def _made(of: Domain) -> str:
    column = of.column
    if column.kind == "e" and of.known:
        labels = ", ".join(map(literal, column.labels))
        return f"(array[{labels}])[1 + (r - 1) % {len(column.labels)}]"
    if of.known and column.base in SIMPLE:
        return SIMPLE[column.base]
    if of.known and column.base in ARRAYS:
        return f"array_fill(r::text, array[{max(1, (of.width - 20) // ARRAYS[column.base])}])::{of.type}"
    if of.known and column.base in DATES:
        return _date(of)
    if of.known and column.base in NUMBERS:
        return "r" if of.is_key or not of.bounds else _between(of, whole=column.base in INTEGERS)
    if of.known and column.base == "bytea":
        return f"convert_to({text(of, of.width - 1)}, 'UTF8')"
    if of.known and column.base in ("json", "jsonb"):
        return f"""('{{"key": ' || r || ', "text": "' || {text(of, of.width - 25)} || '"}}')::{column.base}"""
    return text(of, of.width - 1)


def text(of: Domain, width: int) -> str:
    """Digits in order, and letters up to the width; long ones do not compress better than hexadecimal digits do."""
    digits = len(str(of.distinct))
    limit = _length(of.column) or LONGEST
    more = min(max(width, digits), limit, LONGEST) - digits
    number = f"lpad(r::text, {digits}, '0')"
    if more <= 0:
        return number
    if more <= 32:
        return f"{number} || left(md5(r::text), {more})"
    parts = f"select string_agg(md5(r::text || n), '') from generate_series(1, {-(-more // 32)}) n"  # noqa: S608 - numbers of ours
    return f"{number} || left(({parts}), {more})"


def _date(of: Domain) -> str:
    seconds = _between(of) if of.bounds else f"{FIRST_DAY} + r * 60"
    if of.column.base == "timestamptz":
        return f"to_timestamp({seconds})"
    stamp = f"timestamp '1970-01-01' + ({seconds}) * interval '1 second'"
    return f"({stamp})::date" if of.column.base == "date" else stamp


def _between(of: Domain, whole: bool = False) -> str:
    """The value between two bounds of the histogram, by the rank's share of all ranks."""
    last = len(of.bounds) - 1
    place = f"((r - 1) * {last / of.distinct!r}::float8)"
    low = f"least(floor({place}), {last - 1})"
    bounds = f"array[{', '.join(map(repr, of.bounds))}]::float8[]"
    found = (
        f"({bounds})[{low}::int + 1] + (({bounds})[{low}::int + 2] - ({bounds})[{low}::int + 1]) * ({place} - {low})"
    )
    return f"floor({found})" if whole else f"({found})"
