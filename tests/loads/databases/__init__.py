"""Databases of "production" clusters with their loads, of which twins are created and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.servers.production import Database

ANALYZE = "vacuum analyze"


@dataclass(frozen=True)
class Source(Database):
    """`tables`: the schema without extensions. `secrets`: values of the `secret_columns`, which no capture may contain.
    `index`: one that a statement of the load needs."""

    tables: str
    secrets: Sequence[str]
    secret_columns: Sequence[str]
    index: str


def source(
    name: str,
    tables: str,
    load: Sequence[tuple[int, str]],
    others: Sequence[str],
    secrets: Sequence[str],
    secret_columns: Sequence[str],
    index: str,
) -> Source:
    schema = f"{tables}\ncreate extension pg_stat_statements;\n{ANALYZE};"
    return Source(name, schema, load, others, tables, secrets, secret_columns, index)
