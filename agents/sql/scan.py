"""Whether SQL may write, from its text alone: statements that are not known to only read count as writing. Pure."""

from __future__ import annotations

import re

from .text import bare

# A line of pgbench that begins with a backslash, with its continuation lines; \gset and \aset end a statement.
_META = re.compile(r"^[ \t]*\\\w[^\n]*(?:(?<=\\)\n[^\n]*)*", re.MULTILINE)
_ENDING = re.compile(r"\\(?:g|a)set\b[^\n]*|\\;")

# Functions that inspect caches; they touch no rows of users.
_EXTENSION = re.compile(
    r"create\s+extension\s+(?:if\s+not\s+exists\s+)?(?:pg_prewarm|pg_buffercache|pg_stat_statements)\b"
)

_WRITING = re.compile(
    r"\b(insert|update|delete|merge|truncate|copy|create|drop|alter|vacuum|cluster|reindex|refresh|into|grant|revoke|"
    r"comment|call|do|import|reassign|security|nextval|setval)\b"
)
_READING = {
    *("select", "with", "table", "values", "show", "explain", "fetch", "move", "declare", "close"),
    *("begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "set", "reset", "discard"),
    "checkpoint",
}
_CALL = re.compile(r"([a-z_][\w$.]*)\s*\(")
# Words before a bracket that call nothing, and functions that only read.
_HARMLESS = {
    *(
        "in",
        "any",
        "all",
        "some",
        "exists",
        "values",
        "as",
        "over",
        "filter",
        "and",
        "or",
        "not",
        "on",
        "from",
        "where",
    ),
    *(
        "select",
        "using",
        "with",
        "union",
        "except",
        "intersect",
        "when",
        "then",
        "else",
        "case",
        "by",
        "join",
        "between",
    ),
    *(
        "explain",
        "row",
        "array",
        "having",
        "group",
        "distinct",
        "materialized",
        "interval",
        "numeric",
        "varchar",
        "char",
    ),
    *("count", "sum", "avg", "min", "max", "stddev", "variance", "percentile_cont", "percentile_disc", "within"),
    *("abs", "ceil", "ceiling", "floor", "round", "trunc", "mod", "power", "sqrt", "random", "greatest", "least"),
    *("coalesce", "nullif", "length", "lower", "upper", "substr", "substring", "trim", "replace", "concat", "format"),
    *("to_char", "to_date", "to_timestamp", "to_number", "date_trunc", "date_part", "extract", "age", "now", "cast"),
    *("current_setting", "generate_series", "unnest", "array_agg", "string_agg", "json_agg", "jsonb_agg", "md5"),
    *(
        "pg_prewarm",
        "pg_stat_reset",
        "pg_stat_reset_single_table_counters",
        "pg_stat_clear_snapshot",
        "pg_relation_size",
    ),
    *("row_number", "rank", "dense_rank", "lag", "lead", "first_value", "last_value", "ntile", "pg_sleep"),
}


def may_write(text: str) -> bool:
    """Whether a script of SQL, with commands of pgbench or without, may change anything in the database."""
    sql = _EXTENSION.sub("", _ENDING.sub(";", _META.sub(" ", bare(text))).lower())
    statements = [statement.split() for statement in sql.split(";") if statement.strip(" \n\r\t'")]
    if any(tokens[0].strip("(") not in _READING for tokens in statements if tokens[0] != "("):
        return True
    return bool(_WRITING.search(sql)) or bool(set(_CALL.findall(sql)) - _HARMLESS)
