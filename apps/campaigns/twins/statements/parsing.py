"""Texts of pg_stat_statements, parsed by sqlglot: which tables a statement uses, and which column a name means. Pure.

Texts come from an uploaded file. Accepted are only statements that read or write rows of captured tables, and that call
only the functions of an explicit list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

from sqlglot import exp, parse
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from agents.sql.text import bare
from agents.sql.text import statements as split
from apps.campaigns.twins.columns import Domain
from apps.campaigns.twins.names import Key, ident
from apps.campaigns.twins.schema import Schema
from apps.campaigns.twins.statements.functions import ACCEPTED

ROOTS = (exp.Select, exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.SetOperation)
QUERIES = (exp.Select, exp.Insert, exp.Update, exp.Delete, exp.Merge)
# Words before a bracket that are not calls of functions.
_KEYWORDS = frozenset(
    word
    for line in (
        "in values as over filter and or not on from where select using join then else when case by union except",
        "intersect all any some exists having limit offset returning set distinct materialized within group between is",
        "with conflict numeric decimal varchar char character timestamp timestamptz time bit interval",
        "row lateral only sets rollup cube",
    )
    for word in line.split()
)
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_PARAMETER = re.compile(r"\$(\d{1,4})(\.\.\.)?")
# With the type of a constant such as date '2025-01-01'.
PLACEHOLDER = re.compile(r"(?:\b(date|timestamptz|timestamp|interval)\s+)?'twin_param_(\d+)(_list)?'", re.IGNORECASE)


Source = Mapping[str, Domain | exp.Column]  # the columns of a table, or those that a query returns


class LeftOutError(Exception):
    """The reason why a statement is left out of a twin."""


class Parsed:
    """One statement. Its `text` has literals 'twin_param_1' ... for parameters, and its tables have their schema."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.schema = schema
        marked = _PARAMETER.sub(_placeholder, " ".join(text.split()))
        self.tree = _tree(marked)
        self._ctes = {each.alias_or_name: each for each in reversed(list(self.tree.find_all(exp.CTE)))}
        # By id(), because a hostile statement has thousands of names, or queries that read themselves.
        self._columns: dict[int, Domain | None] = {}
        self._sources = self._sources_by_query()
        self.text = self._with_schemas(marked)
        self._check_functions(marked)

    @cached_property
    def tables(self) -> list[Key]:
        """The tables that it uses, each once."""
        return list(dict.fromkeys(key for table in self.tree.find_all(exp.Table) if (key := self.key(table))))

    def written(self) -> Key | None:
        """The table that the statement itself writes, not one in a WITH query."""
        if isinstance(self.tree, exp.Insert | exp.Update | exp.Delete | exp.Merge):
            table = self.tree.this.this if isinstance(self.tree.this, exp.Schema) else self.tree.this
            return self.key(table) if isinstance(table, exp.Table) else None
        return None

    def deletes(self) -> list[Key]:
        """The tables from which it deletes rows."""
        keys = [self.key(each.this) for each in self.tree.find_all(exp.Delete) if isinstance(each.this, exp.Table)]
        return [key for key in keys if key]

    def columns(self) -> list[Domain]:
        """The columns that it uses, except unknown ones."""
        return [domain for column in self.tree.find_all(exp.Column) if (domain := self.column(column))]

    def key(self, table: exp.Table) -> Key | None:
        """The captured table; None for a WITH query and for a function in FROM. LeftOutError for any other."""
        if not isinstance(table.this, exp.Identifier):
            return None
        name = _name(table.this)
        if table.args.get("db"):
            candidates = [(_name(table.args["db"]), name)]
        elif name in self._ctes:
            return None
        else:
            candidates = self.schema.by_name.get(name, [])
        keys = [key for key in candidates if key in self.schema.tables]
        if len(keys) != 1:
            raise LeftOutError(f"{name} is {'in several schemas' if keys else 'not among the captured tables'}")
        return keys[0]

    def literals(self) -> Iterator[tuple[int, bool, exp.Expr]]:
        """(number, whether it is a list, its literal) of each parameter."""
        for literal in self.tree.find_all(exp.Literal):
            match = PLACEHOLDER.fullmatch(f"'{literal.this}'") if literal.is_string else None
            if match:
                yield int(match[2]), bool(match[3]), literal

    def json_keys(self) -> Iterator[int]:
        """The numbers of parameters that are keys of JSON in generated rows."""
        for key in self.tree.find_all(exp.JSONPathKey):
            match = PLACEHOLDER.fullmatch(f"'{key.this}'")
            extract = key.find_ancestor(exp.JSONExtract, exp.JSONExtractScalar)
            of = self.column(extract.this) if extract and isinstance(extract.this, exp.Column) else None
            if match and of is not None and not of.existing:
                yield int(match[2])

    def column(self, column: exp.Column) -> Domain | None:
        """The column that a name means; None if that is unknown."""
        if id(column) not in self._columns:
            self._columns[id(column)] = None  # while it is searched: a query can read itself
            self._columns[id(column)] = self._search(column)
        return self._columns[id(column)]

    def _search(self, column: exp.Column) -> Domain | None:
        query = enclosing(column)
        while query is not None:
            domains = self._in_query(query, column)
            if domains:
                return domains[0] if len(domains) == 1 else None
            query = enclosing(query)
        return None

    def _in_query(self, query: exp.Expr, column: exp.Column) -> list[Domain]:
        sources, name, table = self._sources.get(id(query), {}), _name(column.this), column.args.get("table")
        if table is not None:
            alias = _name(table)
            if alias == "excluded" and isinstance(query, exp.Insert):
                return self._of_source(next(iter(sources.values()), {}), name)
            return self._of_source(sources.get(alias, {}), name)
        domains = (domain for source in sources.values() for domain in self._of_source(source, name))
        return list(islice(domains, 2))  # two are as ambiguous as more

    def _sources_by_query(self) -> dict[int, dict[str, Source]]:
        """The tables and queries in FROM of each query, by alias."""
        sources: dict[int, dict[str, Source]] = {}
        for each in self.tree.find_all(exp.Table, exp.Subquery):
            query = enclosing(each)
            if query is not None and each.alias_or_name:
                sources.setdefault(id(query), {})[each.alias_or_name] = self._source(each)
        return sources

    def _source(self, source: exp.Expr) -> Source:
        if not isinstance(source, exp.Table):
            return _projected(source.this)
        key = self.key(source)
        if key:
            return self.schema.tables[key].domains
        return _projected(self._ctes[source.name].this) if source.name in self._ctes else {}

    def _of_source(self, source: Source, name: str) -> list[Domain]:
        of = source.get(name)
        domain = self.column(of) if isinstance(of, exp.Column) else of
        return [domain] if domain else []

    def _with_schemas(self, text: str) -> str:
        """The text, with the schema of each table outside of `public`, because a twin has no search_path."""
        for table in sorted(self.tree.find_all(exp.Table), key=lambda each: -each.this.meta.get("start", 0)):
            key, start = self.key(table), table.this.meta.get("start")
            if key and not table.args.get("db") and key[0] != "public" and start is not None:
                text = f"{text[:start]}{ident(key[0])}.{text[start:]}"
        return text

    def _check_functions(self, text: str) -> None:
        tokens = Postgres().tokenize(text)
        for position, (name, bracket) in enumerate(pairwise(tokens)):
            word, quoted = name.text.lower(), name.token_type == TokenType.IDENTIFIER
            if bracket.token_type != TokenType.L_PAREN or not (name.token_type in _NAMES or word.isidentifier()):
                continue
            before = tokens[position - 1].text.lower() if position else ""
            if before in ("into", "with", "as", "recursive") or (before == "." and _is_target(tokens, position)):
                continue
            if before == "." and tokens[position - 2].text.lower() != "pg_catalog":
                raise LeftOutError(f"it calls the function {tokens[position - 2].text}.{name.text}")
            if word not in ACCEPTED and (quoted or word not in _KEYWORDS):
                raise LeftOutError(f"it calls the function {name.text}")


def _projected(query: Any) -> dict[str, exp.Column]:
    """The columns that a query returns, by name."""
    columns: dict[str, exp.Column] = {}
    for each in query.selects if isinstance(query, exp.Select) else ():
        inner = each.this if isinstance(each, exp.Alias) else each
        if isinstance(inner, exp.Column):
            columns.setdefault(each.alias_or_name, inner)
    return columns


def _is_target(tokens: Any, position: int) -> bool:
    """Whether this is the table of INSERT INTO schema.table (columns)."""
    return position >= 3 and tokens[position - 3].text.lower() == "into"


def _placeholder(match: re.Match[str]) -> str:
    return f"'twin_param_{match[1]}{'_list' if match[2] else ''}'"


def _tree(text: str) -> exp.Expr:
    if "\\" in text or ";" in text or re.search(r"(?<!:):[A-Za-z_]", text):
        raise LeftOutError("it has a character that pgbench would interpret")
    if len(split(text)) != 1 or "--" in bare(text) or "/*" in text:
        raise LeftOutError("it is not a single statement")
    try:
        (tree,) = parse(text, read="postgres")
    except (SqlglotError, ValueError, RecursionError) as error:
        raise LeftOutError("it cannot be parsed") from error
    if not isinstance(tree, ROOTS) or tree.find(exp.Command, exp.Into):
        raise LeftOutError("it does not read or write rows")
    return tree


def enclosing(node: exp.Expr) -> exp.Expr | None:
    """The innermost query around a part of a statement."""
    parent = node.parent
    while parent is not None and not isinstance(parent, QUERIES):
        parent = parent.parent
    return parent


def _name(identifier: Any) -> str:
    """As PostgreSQL folds it: in lower case, unless it is quoted."""
    return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).lower()
