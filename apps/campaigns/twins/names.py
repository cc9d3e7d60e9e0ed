"""Names and literals of SQL. Names come from an uploaded file, so each is quoted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

LONGEST_STEP = 24_000  # characters; a step of a data set may have 30,000
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


def packed(name: str, statements: Iterable[str]) -> list[dict[str, Any]]:
    """The statements in few steps of a data set, none of them too long."""
    packs: list[list[str]] = []
    for statement in statements:
        if not packs or sum(map(len, packs[-1])) + len(statement) > LONGEST_STEP:
            packs.append([])
        packs[-1].append(statement)
    return [{"name": f"{name}-{n}", "sql": ";\n".join(pack)} for n, pack in enumerate(packs, start=1)]
