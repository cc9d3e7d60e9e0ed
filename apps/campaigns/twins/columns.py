"""The values of a column of a twin: a function of a rank from 1 to the number of its distinct values. Pure.

The rows and the parameters of statements use the same function. It increases with the rank if the type has an order, so
a range of ranks is a range of values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import accumulate, pairwise

from apps.campaigns.twins.names import OWN_SCHEMA, Key, ident, is_type, literal
from readers.twin.model import Column, Statistics

MOST_FREQUENCIES = 100
UNKNOWN_WIDTH = 16  # bytes, of texts without statistics
UNKNOWN_DISTINCT = 1000
NEARLY = 0.9
LONGEST = 8000  # characters of a generated text
MOST_PARTS = 32  # of a text, that are concatenated without a query
SHORTEST_NEW = 24  # characters of a new text among existing ones: "twin" and a number
LONGEST_VALUES = 8000  # characters of all common values of a column
INTEGERS = {"int2": 2**15 - 1, "int4": 2**31 - 1, "int8": 2**63 - 1}
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
DAY_S = 86_400
FIRST_DAY = 1_577_836_800  # 2020-01-01, of dates without bounds
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Domain:
    """The values of a column. `frequencies`: shares of the ranks 1, 2, ... among the rows that are not null. `parent`:
    the column that a foreign key refers to. `ordered`: ranks refer to the parent's keys in order. `supported`: values
    of the type can be generated. `existing`: its values are sampled from rows that the data set has. `edges`: for a
    skewed column of integers or days, the shares of ranks at which equally large parts of the rows begin and end."""

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
    supported: bool = True
    existing: bool = False
    edges: tuple[float, ...] = ()

    @property
    def is_skewed(self) -> bool:
        """Whether some values are known to be more frequent than others."""
        return bool(self.frequencies or self.edges)

    @property
    def function(self) -> str:
        return f"{OWN_SCHEMA}.value_{self.number}"

    @property
    def sequence(self) -> str:
        """Of ranks for new rows."""
        return f"{OWN_SCHEMA}.new_{self.number}"

    @property
    def type(self) -> str:
        """As in CREATE TABLE; text for a type that is not supported."""
        if self.column.kind == "e":
            return f"{ident(self.column.type_schema)}.{ident(self.column.base)}"
        return self.column.type if is_supported(self.column) else "text"

    @property
    def plain(self) -> bool:
        """Whether the rank itself is the value."""
        return self.is_key and self.column.base in INTEGERS and self.parent is None

    @property
    def takes_any_integer(self) -> bool:
        """Whether numbers that are not among its values may be stored."""
        return self.parent is None and self.column.base in ("int4", "int8")

    @property
    def is_number(self) -> bool:
        return self.column.base in (*INTEGERS, "numeric")

    def new_value(self, number: str) -> str:
        """SQL of a value that no existing row has, from the number of the new row; "" if the type has none."""
        if self.is_number:
            return f"{number}::{self.type}"
        if self.column.base in TEXTS and (_length(self.column) or LONGEST) >= SHORTEST_NEW:
            return f"('twin' || {number})::{self.type}"
        return f"md5({number}::text)::uuid" if self.column.base == "uuid" else ""

    def value(self, rank: str) -> str:
        """SQL of the value with this rank."""
        return rank if self.plain else f"{self.function}({rank})"

    @property
    def covered(self) -> float:
        """The share of the rows that have one of the frequent values."""
        return min(1.0, sum(self.frequencies))


def is_supported(column: Column) -> bool:
    """Whether values of its type can be generated."""
    if column.kind == "e":
        return bool(column.labels)
    known = column.base in (*TEXTS, *SIMPLE, *ARRAYS, *DATES, *NUMBERS, "json", "jsonb", "bytea")
    return known and column.builtin and is_type(column.type)


def domain(table: Key, column: Column, number: int, rows: int, statistics: Statistics | None) -> Domain:
    """The values of a column in a table of the twin with so many rows."""
    unknown = max(1, min(rows, UNKNOWN_DISTINCT, capacity(column)))
    base = Domain(table, column, number, unknown, supported=is_supported(column))
    if statistics is None:
        return base
    n = statistics.n_distinct
    distinct = max(1, round(min(-n * rows, rows) if n < 0 else min(n, max(rows, 1))))
    null_frac = 0.0 if column.not_null else statistics.null_frac
    if distinct >= NEARLY * (1 - null_frac) * rows:
        distinct = max(1, rows)  # a value is hardly ever repeated
    shares = [share / max(1e-9, 1 - statistics.null_frac) for share in statistics.frequencies[:MOST_FREQUENCIES]]
    bounds = _bounds(column, statistics.bounds)
    return replace(
        base,
        distinct=min(distinct, capacity(column)),
        edges=_edges(column, bounds, (1 - sum(shares)) * rows) if distinct < rows / 2 else (),
        null_frac=null_frac,
        frequencies=tuple(shares[:distinct]),
        correlation=statistics.correlation or 0.0,
        width=statistics.avg_width or UNKNOWN_WIDTH,
        bounds=bounds,
        common_values=_short(statistics.common_values[:MOST_FREQUENCIES]),
    )


def capacity(column: Column) -> int:
    """The number of different values that can be generated for the column."""
    if column.kind == "e" and is_supported(column):
        return len(column.labels)
    if column.base in TEXTS and _length(column):
        return int(len(DIGITS) ** min(_length(column), 12))
    precision, _ = _precision(column)
    if precision:
        return int(10 ** min(precision, 18)) - 1
    return {"bool": 2, "time": 86_400, **INTEGERS}.get(column.base, 2**62)


def _length(column: Column) -> int:
    match = re.search(r"\((\d+)\)", column.type)
    return int(match[1]) if match and column.base in TEXTS else 0


def _precision(column: Column) -> tuple[int, int]:
    """Precision and scale of a numeric; 0 and 0 without them."""
    match = re.search(r"\((\d+),(-?\d+)\)", column.type) if column.base == "numeric" else None
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _short(values: tuple[str, ...]) -> tuple[str, ...]:
    """The first values, up to LONGEST_VALUES characters: a step of a data set has limited length."""
    ends = accumulate(len(literal(each)) for each in values)
    return tuple(each for each, end in zip(values, ends, strict=True) if end <= LONGEST_VALUES)


def _bounds(column: Column, bounds: tuple[str, ...]) -> tuple[float, ...]:
    """Bounds as numbers; dates as seconds since 1970. Empty if one of them is no finite number."""
    try:
        numbers = [_seconds(each) if column.base in DATES else float(each) for each in bounds]
    except ValueError:
        return ()
    valid = column.base in (*DATES, *NUMBERS) and all(map(math.isfinite, numbers)) and numbers == sorted(numbers)
    return tuple(numbers) if valid and len(numbers) > 1 and numbers[0] < numbers[-1] else ()


def _edges(column: Column, bounds: Sequence[float], rows: float) -> tuple[float, ...]:
    """Cumulative shares of the distinct values of each part between two bounds, which have equally many of the rows.
    A part has at most as many values as it has integers or days, and fewer if it has few rows."""
    if len(bounds) < 3 or rows < 1 or column.base not in (*INTEGERS, "date"):
        return ()
    unit = DAY_S if column.base == "date" else 1
    widths = [(end - start) / unit for start, end in pairwise(bounds)]
    per_part = rows / len(widths)
    values = [max(1.0, width * -math.expm1(-per_part / width)) if width else 1.0 for width in widths]
    return (0.0, *(total / sum(values) for total in accumulate(values)))


def _seconds(text: str) -> float:
    if len(text) == 10:
        return datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).timestamp()
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def definition(of: Domain) -> str:
    """CREATE FUNCTION of the values. Immutable, so that the planner sees a constant. In PL/pgSQL, because a session
    then parses the expression once."""
    return (
        f"create function {of.function}(r bigint) returns {of.type} language plpgsql immutable strict parallel safe"
        f" as $value$ begin return ({_expression(of)})::{of.type}; end $value$"
    )


def _expression(of: Domain) -> str:
    if of.parent is not None:
        return of.parent.value(f"({_parents_rank(of, of.parent)})")
    value = _generated(of)
    if of.common_values and of.column.kind != "e" and of.supported:
        common = ", ".join(map(literal, of.common_values))
        value = (
            f"case when r <= {len(of.common_values)} then (array[{common}])[r]::{of.type} else ({value})::{of.type} end"
        )
    return value


def _parents_rank(of: Domain, parent: Domain) -> str:
    """The parent's rank. If the child's rows are in its order, parents are in order; else they are scattered."""
    if of.ordered or abs(of.correlation) >= 0.5 or of.distinct >= parent.distinct:
        step = parent.distinct / of.distinct
        return "r" if step <= 1 else f"1 + floor((r - 1) * {step!r}::float8)::bigint"
    return f"1 + (r * {coprime(parent.distinct)}) % {parent.distinct}"


def coprime(count: int) -> int:
    """A factor that maps 1..count to 1..count in scattered order, each number once."""
    factor = max(1, int(count * 0.618033988749895))
    while math.gcd(factor, count) != 1:
        factor += 1
    return factor


def _generated(of: Domain) -> str:
    column = of.column
    if column.kind == "e" and of.supported:
        labels = ", ".join(map(literal, column.labels))
        return f"(array[{labels}])[1 + (r - 1) % {len(column.labels)}]"
    if of.supported and column.base in SIMPLE:
        return SIMPLE[column.base]
    if of.supported and column.base in ARRAYS:
        return f"array_fill(r::text, array[{max(1, (of.width - 20) // ARRAYS[column.base])}])::{of.type}"
    if of.supported and column.base in DATES:
        return _date(of)
    if of.supported and column.base in NUMBERS:
        return _between(of, whole=column.base in INTEGERS) if of.bounds else _number(of)
    if of.supported and column.base == "bytea":
        return f"convert_to({text(of, of.width - 1)}, 'UTF8')"
    if of.supported and column.base in ("json", "jsonb"):
        return f"""('{{"key": ' || r || ', "text": "' || {text(of, of.width - 25)} || '"}}')::{column.base}"""
    return text(of, of.width - 1)


def text(of: Domain, width: int) -> str:
    """The rank with leading zeros, then hexadecimal digits up to the width, which do not compress well."""
    digits, limit = _digits(of), _length(of.column) or LONGEST
    if digits > limit:
        return _short_text(limit)
    more = min(max(width, digits), limit, LONGEST) - digits
    number = f"lpad(r::text, {digits}, '0')"
    if more <= 0:
        return number
    if more <= 32:
        return f"{number} || left(md5(r::text), {more})"
    count = -(-more // 32)
    parts = " || ".join(f"md5(r || '.{n}')" for n in range(1, count + 1))
    if count > MOST_PARTS:
        parts = f"(select string_agg(md5(r || '.' || n), '') from generate_series(1, {count}) n)"  # noqa: S608 - numbers of ours
    return f"{number} || left({parts}, {more})"


def _digits(of: Domain) -> int:
    return len(str(of.distinct)) + of.unique  # new rows of a unique column need more ranks


def numbered_digits(of: Domain) -> int:
    """The number of decimal digits of the rank at the beginning of each generated text; 0 if texts begin otherwise."""
    is_text = of.supported and of.column.kind != "e" and of.column.base in TEXTS and of.parent is None
    fits = _digits(of) <= (_length(of.column) or LONGEST) and len(of.common_values) < of.distinct
    return _digits(of) if is_text and fits and not of.existing else 0


def _short_text(length: int) -> str:
    """The rank in base 36, if the type is too short for its decimal digits."""
    digit = f"substr('{DIGITS}', 1 + (r / power({len(DIGITS)}, n)::bigint % {len(DIGITS)})::int, 1)"
    return f"(select string_agg({digit}, '' order by n desc) from generate_series(0, {length - 1}) n)"  # noqa: S608 - numbers of ours


def _number(of: Domain) -> str:
    """The rank. If it has too many digits for a numeric, the rank in units of the last digit."""
    precision, scale = _precision(of.column)
    if precision and of.distinct >= 10 ** (precision - scale):
        return f"r * 1e{-scale}::numeric"
    return "r"


def _date(of: Domain) -> str:
    step = DAY_S if of.column.base == "date" else 60
    seconds = _between(of) if of.bounds else f"{FIRST_DAY} + r * {step}"
    if of.column.base == "date":  # so that different ranks are different days
        seconds = f"round(({seconds}) / {DAY_S}) * {DAY_S}"
    if of.column.base == "timestamptz":
        return f"to_timestamp({seconds})"
    stamp = f"timestamp '1970-01-01' + ({seconds}) * interval '1 second'"
    return f"({stamp})::date" if of.column.base == "date" else stamp


def _between(of: Domain, whole: bool = False) -> str:
    """The value between two bounds of the histogram, by the rank's share of all ranks."""
    last = len(of.bounds) - 1
    position = f"((r - 1) * {last / max(1, of.distinct - 1)!r}::float8)"
    if of.edges:
        position = (
            f"{OWN_SCHEMA}.interpolated({floats(of.edges)}, {floats(range(last + 1))}, (r - 1.0) / {of.distinct})"
        )
    low = f"least(floor({position}), {last - 1})"
    bounds = floats(of.bounds)
    start, end = f"({bounds})[{low}::int + 1]", f"({bounds})[{low}::int + 2]"
    value = f"{start} + ({end} - {start}) * ({position} - {low})"
    return f"round({value})" if whole else f"({value})"


def floats(numbers: Iterable[float]) -> str:
    return f"'{{{','.join(map(repr, numbers))}}}'::float8[]"
