"""Values for the parameters of a statement, from the columns that they are compared with or stored in. Pure.

Production's rows per call determine how wide ranges are and how long lists are. The keys of a query, the width of its
range and its LIMIT are calibrated when the data set is created.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from sqlglot import exp

from apps.campaigns.twins.calibration import CalibratedStatement
from apps.campaigns.twins.columns import DATES, NUMBERS, Domain, numbered_digits
from apps.campaigns.twins.drawing import Script
from apps.campaigns.twins.statements.functions import SUMS
from apps.campaigns.twins.statements.parsing import PLACEHOLDER, LeftOutError, Parsed, enclosing
from readers.twin.model import Counts

MOST_IN_LIST = 200
MOST_ABSENT = 10  # ranks per existing key, of which all but one are absent
JSON_KEY = "'key'"  # of generated documents
NO_TIME = "interval '0'"
WHOLE = 0.002  # this deviation from a whole number is due to calls that end between snapshots
COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
LOWER, UPPER = (exp.GT, exp.GTE), (exp.LT, exp.LTE)
TIMES = (exp.Cast, exp.CurrentTimestamp)
ADDED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
AGGREGATED = (exp.AggFunc, exp.Distinct, exp.Group, exp.Limit, exp.SetOperation)


class Parameters:
    """The values of one statement: `sql` by the number of the parameter, and the `script` that draws them."""

    def __init__(self, parsed: Parsed, counts: Counts, factor: float, name: str) -> None:
        self._parsed, self._factor, self.script = parsed, factor, Script()
        self.choice = CalibratedStatement(name, self.script, by_blocks=parsed.written() is None)
        self._calibrates = not isinstance(parsed.tree, exp.Insert | exp.Merge)
        self._rows = counts.rows / counts.calls
        self._blocks = counts.blocks / counts.calls
        self.sql: dict[int, str] = {}
        literals = list(parsed.literals())
        self.sql |= dict.fromkeys(parsed.json_keys(), JSON_KEY)
        self._is_list = {number for number, several, _ in literals if several}
        self._literals = {number: literal for number, _, literal in literals}
        self._numbers = {id(literal): number for number, literal in self._literals.items()}
        # Of expressions, by id().
        self._firsts: dict[int, int | None] = {}
        self._columns_of: dict[int, list[Domain | None]] = {}
        expected = {int(match[2]) for match in PLACEHOLDER.finditer(parsed.text)}
        unknown = sorted(expected - set(self._literals) - set(self.sql))
        if unknown:
            raise LeftOutError(f"the use of parameter ${unknown[0]} is unknown")
        self._keys()
        self._ranges()
        for number, literal in sorted(self._literals.items()):
            if number not in self.sql:
                self.sql[number] = self._value(number, literal)
            if isinstance(literal.parent, exp.Interval) and self.sql[number] != NO_TIME:
                self.sql[number] = _since_now(literal.parent, self.sql[number])

    # Keys

    def _keys(self) -> None:
        """The key whose draws are calibrated: the columns of one table that are compared with parameters. Values of
        several columns come from one row."""
        tables: dict[tuple[int, str], dict[int, Domain]] = {}
        for each in self._parsed.tree.find_all(exp.EQ) if self._calibrates else ():
            number, column = self._first(each.expression), each.this
            if isinstance(each.expression, exp.Any):
                continue
            if number and isinstance(column, exp.Column) and not each.find_ancestor(exp.Or, exp.Not, exp.Case):
                of, is_set = self._parsed.column(column), each.arg_key == "expressions"
                if of is not None and of.supported and not is_set:
                    tables.setdefault((id(enclosing(each)), column.table or str(of.table)), {})[number] = of
        key = max(tables.values(), key=lambda each: len(set(each.values())), default={})
        columns = tuple(dict.fromkeys(key.values()))
        if len(columns) > 1:
            self.choice.columns = columns
            self.sql |= {number: self.choice.value_of(of) for number, of in key.items()}
        elif columns and not self._is_lookup(columns[0]):
            rank = self.choice.rank_of(columns[0])
            self.sql |= {number: of.value(rank) for number, of in key.items()}

    def _is_lookup(self, of: Domain) -> bool:
        """Whether each key has the same cost: it reads or changes a single row."""
        return of.unique and len(self._parsed.tables) == 1

    # Ranges

    def _ranges(self) -> None:
        """Two bounds of one column become a range with the expected rows."""
        for between in self._parsed.tree.find_all(exp.Between):
            low, high = self._first(between.args["low"]), self._first(between.args["high"])
            if low and high and isinstance(between.this, exp.Column):
                self._range(between.this, low, high)
        bounds: dict[tuple[int, str], dict[str, tuple[int, exp.Column]]] = {}
        for each in self._parsed.tree.find_all(*LOWER, *UPPER):
            column, other = each.this, each.expression
            number = self._first(other)
            if number and isinstance(column, exp.Column) and number not in self.sql:
                side = "low" if isinstance(each, LOWER) else "high"
                bounds.setdefault((id(enclosing(each)), column.sql()), {})[side] = (number, column)
        for sides in bounds.values():
            if len(sides) == 2:
                self._range(sides["low"][1], sides["low"][0], sides["high"][0])

    def _range(self, column: exp.Column, low: int, high: int) -> None:
        of = self._of(column)
        width = self._width_of(of)
        first = f"greatest(1, least({self._start(of)}, {of.distinct + 1} - {width}))"
        self.sql[low], self.sql[high] = of.value(first), of.value(f"{first} + {width} - 1")

    def _start(self, of: Domain) -> str:
        """The rank at which a range starts. It is calibrated if the statement has no other key."""
        is_key = self._calibrates and not self.choice.ranks
        return self.choice.rank_of(of) if is_key else self.script.random(of.distinct)

    def _width_of(self, of: Domain) -> str:
        """SQL of the number of ranks in a range. It is calibrated if the statement has no other range."""
        width = self._width(of)
        return self.choice.width_of(of, width) if self._calibrates and self.choice.width is None else str(width)

    def _width(self, of: Domain) -> int:
        """The number of ranks in a range with the expected rows."""
        rows = self._parsed.schema.tables[of.table].count
        per_rank = max(1e-9, rows * (1 - of.null_frac) / of.distinct)
        return max(1, min(of.distinct, round(self._expected_rows(of) / per_rank)))

    def _expected_rows(self, of: Domain) -> float:
        """Rows per call that the conditions on this column select: the rows that the statement returns or changes.

        An aggregate hides their number. It is then estimated as one row per block, or as all rows of the blocks if the
        rows are stored in the order of the column."""
        table = self._parsed.schema.tables[of.table]
        captured = table.captured
        if self._counts_rows(of):
            return self._rows if of.unique or of.parent else self._rows * self._factor
        per_block = captured.rows / captured.pages if captured.pages and abs(of.correlation) > 0.9 else 1.0
        return min(float(table.count), max(1.0, self._blocks * per_block))

    def _counts_rows(self, of: Domain) -> bool:
        """Whether the rows of the result are rows of the column's table."""
        if self._parsed.written() is not None:
            return True
        tree = self._parsed.tree
        group = tree.args.get("group")
        if group is not None and tree.args.get("limit") is None:
            columns = [each for each in group.expressions if isinstance(each, exp.Column)]
            grouped = [domain for each in columns if (domain := self._parsed.column(each))]
            return any(domain.unique and domain.table == of.table for domain in grouped)
        return not self._is_aggregated

    @cached_property
    def _is_aggregated(self) -> bool:
        tree = self._parsed.tree
        return any(enclosing(each) is tree for each in tree.find_all(*AGGREGATED) if each is not tree)

    # Single values

    def _value(self, number: int, literal: exp.Expr) -> str:
        node, parent = _outermost(literal)
        if isinstance(parent, exp.Interval):
            node, parent = _outermost(parent)
        if isinstance(parent, ADDED):
            return self._added(number, node, parent)
        stored = self._stored(node, parent)
        if stored is not None:
            return self._new(stored)
        compared = self._compared(number, node, parent)
        if compared is not None:
            return compared
        if isinstance(parent, exp.Like | exp.ILike) and isinstance(parent.this, exp.Column):
            return self._pattern(number, self._of(parent.this), parent)
        if isinstance(parent, exp.Limit | exp.Fetch):
            return self._limit()
        if isinstance(parent, exp.Offset):
            return "0"
        if isinstance(parent, exp.Coalesce):
            return self._instead(parent, number)
        raise LeftOutError(f"the column of parameter ${number} is unknown")

    def _added(self, number: int, node: exp.Expr, parent: exp.Expr) -> str:
        """A parameter in an arithmetic expression. Without columns, the first parameter has the value of the
        expression, and the others do not change it. With columns, each parameter is 1."""
        top: Any = parent
        while isinstance(top.parent, (*ADDED, exp.Paren)):
            top = top.parent
        if id(top) not in self._columns_of:
            self._columns_of[id(top)] = [self._parsed.column(each) for each in top.find_all(exp.Column)]
        columns = self._columns_of[id(top)]
        if any(each is None or each.column.base not in (*NUMBERS, *DATES) for each in columns):
            raise LeftOutError(f"parameter ${number} is part of an expression")
        first = self._first(top)
        if not columns and number == first:
            outer, above = _outermost(top)
            stored = self._stored(outer, above)
            value = self._new(stored) if stored is not None else self._compared(number, outer, above)
            if value is None:
                raise LeftOutError(f"the column of parameter ${number} is unknown")
            return value
        if isinstance(node, exp.Interval):
            return NO_TIME
        neutral = isinstance(parent, exp.Mul | exp.Div | exp.Mod) or columns
        return "1" if neutral else "0"

    def _first(self, node: Any) -> int | None:
        """The number of the parameter that determines the value of an expression: the first one, or the interval before
        or after now(). None if the expression has a column, another function or a query."""
        if node is None:
            return None
        if id(node) not in self._firsts:
            literals = [each for each in node.find_all(exp.Literal) if id(each) in self._numbers]
            if node.find(exp.CurrentTimestamp):
                literals = [each for each in literals if isinstance(each.parent, exp.Interval)]
            other = node.find(exp.Column, exp.Query)
            other = other or next((each for each in node.find_all(exp.Func) if not isinstance(each, TIMES)), None)
            numbers = [self._numbers[id(each)] for each in literals]
            self._firsts[id(node)] = None if other else min(numbers, default=None)
        return self._firsts[id(node)]

    def _stored(self, node: exp.Expr, parent: exp.Expr | None) -> Domain | None:
        """The column that this value is stored in."""
        if isinstance(parent, exp.EQ) and isinstance(parent.parent, exp.Update | exp.OnConflict | exp.When):
            is_set = parent.arg_key == "expressions" and parent.expression is node
            if is_set and isinstance(parent.this, exp.Column):
                of = self._of(parent.this)
                if of.unique:
                    raise LeftOutError(f"it changes the unique column {of.column.name}")
                return of
        insert = parent.find_ancestor(exp.Insert) if parent is not None else None
        if insert is not None and isinstance(parent, exp.Tuple) and isinstance(parent.parent, exp.Values):
            return self._target(insert, parent.expressions.index(node))
        if insert is not None and isinstance(parent, exp.Select) and insert.expression is parent:
            position = next((n for n, each in enumerate(parent.expressions) if each is node), None)
            return None if position is None else self._target(insert, position)
        return None

    def _target(self, insert: exp.Insert, position: int) -> Domain:
        key = self._parsed.key(insert.this.this if isinstance(insert.this, exp.Schema) else insert.this)
        domains = self._parsed.schema.tables[key].domains if key else {}
        named = (
            [each.name for each in insert.this.expressions] if isinstance(insert.this, exp.Schema) else list(domains)
        )
        domain = domains.get(named[position]) if position < len(named) else None
        if domain is None:
            raise LeftOutError("a value has no column")
        return domain

    def _new(self, of: Domain) -> str:
        """A value to store. A key gets a new value, unless the statement has ON CONFLICT."""
        self._check_supported(of)
        table = self._parsed.schema.tables[of.table]
        inserts = self._parsed.written() == of.table and isinstance(self._parsed.tree, exp.Insert)
        if inserts and not self._has_on_conflict and of in table.with_sequence:
            next_value = f"nextval('{of.sequence}')"
            new = of.new_value(next_value) if of.existing else next_value
            if of.parent is not None or not new:
                raise LeftOutError(f"no new value of the unique column {of.column.name} can be generated")
            if of.existing:
                return new
            return of.value(next_value) if of.unique else f"{next_value}::{of.type}"
        return of.value(self.script.rank(of))

    @cached_property
    def _has_on_conflict(self) -> bool:
        return self._parsed.tree.find(exp.OnConflict) is not None

    def _compared(self, number: int, node: exp.Expr, parent: exp.Expr | None) -> str | None:
        column = _other_side(node, parent)
        if isinstance(column, exp.JSONExtractScalar) and isinstance(column.this, exp.Column):
            return f"({self.script.rank(self._of(column.this))})::text"
        if not isinstance(column, exp.Column):
            return None
        of = self._of(column)
        if isinstance(parent, LOWER + UPPER):
            return of.value(self._bound(of, is_low=isinstance(parent, LOWER) == (parent.this is column)))
        if number in self._is_list or isinstance(parent, exp.Any):
            return self._list(of, is_array=isinstance(parent, exp.Any))
        return of.value(self._rank(of))

    def _rank(self, of: Domain) -> str:
        """A rank. Of calls that return or change less than one row each, some have a key that no row has."""
        if self._is_lookup(of) and self._counts_rows(of) and 0 < self._rows < 1 and of.parent is None:
            return self.script.random(min(round(of.distinct / self._rows), MOST_ABSENT * of.distinct))
        return self.script.rank(of)

    def _pattern(self, number: int, of: Domain, like: exp.Expr) -> str:
        """A pattern with as many of the first digits of a value as let the expected rows match. It is a prefix, or, if
        production read half of the table or more, a part of the text, for which no B-tree index is used."""
        is_negated = like.find_ancestor(exp.Not) is not None or bool(like.args.get("negate"))
        digits = numbered_digits(of)
        if is_negated or not digits:
            raise LeftOutError(f"no pattern of LIKE can be generated for parameter ${number}")
        length = max(0, digits - round(math.log10(self._width(of))))
        common = min(of.distinct - 1, len(of.common_values))
        rank = f"{common} + " * (common > 0) + self.script.random(of.distinct - common)
        pages = self._parsed.schema.tables[of.table].captured.pages
        anywhere = "'%' || " if self._blocks >= max(1, pages) / 2 else ""
        return f"({anywhere}left({of.value(rank)}, {length}) || '%')"

    def _bound(self, of: Domain, is_low: bool) -> str:
        """The rank of a single bound, so that the range has the expected rows. With LIMIT, any rank."""
        if self._parsed.tree.args.get("limit") is not None:
            return self._start(of)
        width = self._width_of(of)
        least = 0 if of.column.base in (*NUMBERS, *DATES) and of.parent is None else 1
        return f"greatest({least}, {of.distinct} - {width})" if is_low else width

    def _limit(self) -> str:
        """The rows per call. If they are no whole number, some calls have fewer rows than LIMIT; it is calibrated."""
        is_whole = abs(self._rows - round(self._rows)) <= WHOLE * self._rows
        if is_whole or not self._calibrates or self.choice.limit is not None:
            return str(max(1, round(self._rows)))
        return self.choice.limit_of(self._rows)

    def _list(self, of: Domain, is_array: bool) -> str:
        rows = max(1, self._parsed.schema.tables[of.table].count)
        count = self._expected_rows(of) * (1 if of.unique else of.distinct / rows)
        values = [of.value(self.script.rank(of)) for _ in range(max(1, min(MOST_IN_LIST, round(count))))]
        return f"array[{', '.join(values)}]::{of.type}[]" if is_array else ", ".join(values)

    def _instead(self, coalesce: exp.Coalesce, number: int) -> str:
        others = [each for each in (coalesce.this, *coalesce.expressions) if not isinstance(each, exp.Literal)]
        if all(isinstance(each, exp.AggFunc) and each.key in SUMS for each in others):
            return "0"
        if len(others) == 1 and isinstance(others[0], exp.Column):
            of = self._of(others[0])
            return of.value(self.script.rank(of))
        raise LeftOutError(f"the column of parameter ${number} is unknown")

    def _of(self, column: exp.Column) -> Domain:
        domain = self._parsed.column(column)
        if domain is None:
            raise LeftOutError(f"the table of the column {column.name} is unknown")
        self._check_supported(domain)
        return domain

    @staticmethod
    def _check_supported(of: Domain) -> None:
        if not of.supported:
            raise LeftOutError(f"values of type {of.column.type} cannot be generated")


def _outermost(literal: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """The expression with its brackets and casts to built-in types, and its parent."""
    node = literal
    while isinstance(node.parent, exp.Paren | exp.Neg) or (
        isinstance(node.parent, exp.Cast) and _is_builtin(node.parent)
    ):
        node = node.parent
    return node, node.parent


def _since_now(interval: exp.Expr, value: str) -> str:
    """The interval that turns now() into the value. An interval alone is the value itself."""
    node: exp.Expr = interval
    while isinstance(node.parent, exp.Mul | exp.Paren):
        node = node.parent
    if not isinstance(node.parent, exp.Add | exp.Sub) or not node.parent.find(exp.CurrentTimestamp):
        return value
    time = f"({value})::timestamptz"
    return f"(now() - {time})" if isinstance(node.parent, exp.Sub) else f"({time} - now())"


def _is_builtin(cast: exp.Cast) -> bool:
    return cast.to.this not in (exp.DType.USERDEFINED, exp.DType.INTERVAL)


def _other_side(node: exp.Expr, parent: Any) -> Any:
    """The expression that a value is compared with; None without a comparison."""
    if isinstance(parent, exp.Any):
        return _other_side(parent, parent.parent)
    if isinstance(parent, COMPARED):
        return parent.expression if parent.this is node else parent.this
    if isinstance(parent, exp.Between | exp.In):
        return parent.this
    if isinstance(parent, exp.Tuple) and isinstance(parent.parent, COMPARED):
        row = parent.parent
        other = row.expression if row.this is parent else row.this
        position = next((n for n, each in enumerate(parent.expressions) if each is node), 0)
        return (
            other.expressions[position] if isinstance(other, exp.Tuple) and position < len(other.expressions) else None
        )
    return None
