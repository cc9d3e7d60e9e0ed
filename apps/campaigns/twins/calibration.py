"""Draws the keys of a statement so that it reads as many rows and blocks per call as in production.

Statistics say how often values occur in rows, not how often the application reads them. So the last steps of the data
set execute each statement with keys from all parts of the tables, and choose how often each part is drawn, the width of
ranges, and LIMIT. The result is a function for each of them, from a random number of pgbench.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.campaigns.twins.columns import Domain
from apps.campaigns.twins.drawing import FINE, Script
from apps.campaigns.twins.names import OWN_SCHEMA, ident, literal, packed, qualified
from readers.twin.model import Statement

FUNCTIONS = Path(__file__).with_name("calibrate.sql")
SAMPLED = 20_000  # keys of several columns
LIMIT_S = 600  # for the calibration of one statement, which is executed some hundred times
# Settings of production that plans depend on.
PLANNER = re.compile(
    r"(enable|jit|parallel|cpu|(seq|random)_page)_\w+|jit|work_mem|hash_mem_multiplier|effective_cache_size"
)


@dataclass
class CalibratedStatement:
    """What is calibrated in the statement `name`. `ranks`: the number of keys; 0 if none is drawn. `columns`: the
    columns of one row that make up a key. `width`, `limit`: the first estimates, None if the statement has no range or
    LIMIT; `widest`: the largest width. `by_blocks`: whether blocks per call are compared, too."""

    name: str
    script: Script
    by_blocks: bool
    ranks: int = 0
    columns: tuple[Domain, ...] = ()
    width: float | None = None
    widest: int = 1
    limit: float | None = None
    variable: str = field(init=False, default="")

    @property
    def is_used(self) -> bool:
        return bool(self.variable)

    def _call(self, function: str) -> str:
        self.variable = self.variable or self.script.random(FINE)
        return f"{OWN_SCHEMA}.{function}_{self.name}({self.variable})"

    def rank_of(self, of: Domain) -> str:
        """SQL of the rank of the key, which has one column."""
        self.ranks = of.distinct
        return self._call("rank")

    def value_of(self, of: Domain) -> str:
        """SQL of the value of one of the columns of the key."""
        self.ranks = SAMPLED
        return f"{OWN_SCHEMA}.key_{self.name}_{self.columns.index(of)}({self._call('rank')})"

    def width_of(self, of: Domain, width: int) -> str:
        """SQL of the number of ranks in a range."""
        self.width, self.widest = float(width), of.distinct
        return self._call("width")

    def limit_of(self, rows: float) -> str:
        """SQL of LIMIT."""
        self.limit = max(1.0, rows)
        return self._call("limit")


Calibrated = tuple[CalibratedStatement, str, Statement]  # with the text of the statement in the twin


def steps(choices: Sequence[Calibrated], settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """Steps of the data set that calibrate these statements. `settings`: those of production."""
    if not choices:
        return []
    created = [statement for choice, *_ in choices for statement in (*keys(choice), *functions(choice))]
    return [
        {"name": "calibration", "sql": FUNCTIONS.read_text()},
        *packed("keys-of-statements", created),
        *({"name": f"calibrate-{each[0].name}", "sql": call(*each, settings)} for each in choices),
        {"name": "vacuum-again", "sql": "vacuum analyze", "transaction": False},
    ]


def functions(choice: CalibratedStatement) -> Iterator[str]:
    """CREATE FUNCTION for what the statement calls, before it is calibrated."""
    name = choice.name
    if choice.ranks:
        count = f"(select max(n) from {OWN_SCHEMA}.keys_{name})" if choice.columns else str(choice.ranks)
        yield _function(f"rank_{name}(u bigint)", "bigint", f"1 + (u - 1) * {count} / {FINE}")
    if choice.width is not None:
        yield _function(f"width_{name}(u bigint)", "bigint", str(max(1, min(choice.widest, round(choice.width)))))
    if choice.limit is not None:
        yield _function(f"limit_{name}(u bigint)", "bigint", str(round(choice.limit)))


def keys(choice: CalibratedStatement, sample: str = "") -> Iterator[str]:
    """The table of keys of several columns, most frequent ones first, and the functions that read it. A rank above
    their number is a key that no row has."""
    if not choice.columns:
        return
    name, columns = f"{OWN_SCHEMA}.keys_{choice.name}", [ident(each.column.name) for each in choice.columns]
    values = ", ".join(f"{column} as v{n}" for n, column in enumerate(columns))
    positions = ", ".join(f"v{n}" for n in range(len(columns)))
    known = " and ".join(f"{column} is not null" for column in columns)
    source = f"{qualified(choice.columns[0].table)}{sample} where {known}"
    counted = f"select {values}, count(*) as rows from {source} group by {positions}"
    chosen = f"select * from ({counted}) counted order by md5(({positions})::text) limit {SAMPLED}"
    yield (
        f"create table {name} as select row_number() over (order by rows desc, {positions}) as n, {positions}"
        f" from ({chosen}) chosen"
    )
    yield f"alter table {name} add primary key (n)"
    for n, of in enumerate(choice.columns):
        row = f"(select v{n} from {name} where n = 1 + (r - 1) % (select max(n) from {name}))"
        is_last = n == len(columns) - 1 and not of.existing
        absent = f"case when r > (select max(n) from {name}) then {of.value(str(of.distinct + 1))} else {row} end"
        yield _function(f"key_{choice.name}_{n}(r bigint)", of.type, absent if is_last else row)


def _function(signature: str, returns: str, expression: str) -> str:
    """Immutable although it may read a table: the table never changes, so the planner may call it in advance. In
    PL/pgSQL, because a session then parses the expression once."""
    body = literal(f"begin return {expression}; end")
    return (
        f"create function {OWN_SCHEMA}.{signature} returns {returns} language plpgsql immutable strict parallel safe"
        f" as {body}"
    )


def call(choice: CalibratedStatement, text: str, statement: Statement, settings: Mapping[str, str]) -> str:
    """The statement that calibrates one statement of the twin."""
    most = ", ".join(map(str, choice.script.most)) or "1"
    counts = statement.counts
    planner = "".join(
        f"set local {name} = {literal(settings[name])};\n" for name in sorted(filter(PLANNER.fullmatch, settings))
    )
    arguments = ", ".join(
        [
            literal(choice.name),
            literal(text),
            literal(choice.variable),
            f"array[{most}]::bigint[]",
            f"{counts.rows / counts.calls!r}::float8",
            f"{counts.blocks / counts.calls!r}::float8",
            str(choice.by_blocks).lower(),
            f"(select max(n) from {OWN_SCHEMA}.keys_{choice.name})" if choice.columns else str(choice.ranks),
            _number(choice.width),
            str(choice.widest),
            _number(choice.limit),
        ]
    )
    limit = f"set local statement_timeout = '{LIMIT_S}s';\n"
    return f"{planner}{limit}select {OWN_SCHEMA}.calibrate({arguments})"


def _number(value: Any) -> str:
    return "null" if value is None else f"{value!r}::float8"
