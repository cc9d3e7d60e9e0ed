"""Names and literals of SQL. All names of a twin come from an uploaded file, so each is quoted. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

HOME = "proving_twin"  # the schema of a twin's own functions and sequences
# Types as format_type writes them, without those of users.
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
    """Whether it is the name of a built-in type, with its modifiers, and nothing else."""
    return bool(_TYPE.fullmatch(text))
