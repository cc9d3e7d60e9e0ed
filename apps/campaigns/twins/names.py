"""Names and literals of SQL. Names come from an uploaded file, so each is quoted. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

OWN_SCHEMA = "proving_twin"  # for the functions and sequences of a twin
# Built-in types as format_type writes them.
_TYPE = re.compile(r"[a-z][a-z0-9_ ]{0,60}(\(\d{1,5}(,-?\d{1,5})?\))?( (with|without) time zone)?(\[\])*")

Key = tuple[str, str]  # schema and name of a table


def ident(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def idents(names: Sequence[str]) -> str:
    return ", ".join(map(ident, names))


def qualified(key: Key) -> str:
    return f"{ident(key[0])}.{ident(key[1])}"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def is_type(text: str) -> bool:
    """Whether it is only the name of a built-in type, with its modifiers."""
    return bool(_TYPE.fullmatch(text))
