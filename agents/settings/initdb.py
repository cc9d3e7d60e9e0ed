"""How the private cluster is made: what initdb decides for good."""

from __future__ import annotations

from typing import Any

from .base import Facts, Plan, Proof, Scene, Setting

MB = 1 << 20
_PROVIDERS = {"c": "libc", "i": "icu", "b": "builtin"}
_QUERY = """
select json_build_object('data_checksums', current_setting('data_checksums'),
  'wal_segment_size', pg_size_bytes(current_setting('wal_segment_size')),
  'encoding', pg_encoding_to_char(encoding), 'database', row_to_json(pg_database))
from pg_database where datname = current_database()
"""


class Initdb(Setting):
    name = "initdb"
    title = "New cluster (initdb)"
    help = "Page checksums, WAL segment size, locale and encoding of the private cluster, one cluster for each choice"
    unit = "WAL segments in MB"
    risk = "disk space: each combination creates a cluster, which is kept"
    tools = ("initdb",)
    schema = {
        "type": "object",
        "title": "New cluster (initdb)",
        "properties": {
            "data_checksums": {"type": "boolean", "title": "Page checksums", "default": True},
            "wal_segment_size": {
                "type": "integer",
                "title": "WAL segment size (MB)",
                "enum": [1 << power for power in range(11)],
                "description": "A power of two from 1 to 1024; PostgreSQL 11 or later",
            },
            "encoding": {
                "type": "string",
                "title": "Encoding",
                "pattern": r"^[A-Z][A-Z0-9_]{1,20}$",
                "description": "As in pg_encoding_to_char: UTF8, SQL_ASCII, LATIN1",
                "default": "UTF8",
            },
            "locale": {
                "type": "string",
                "title": "Locale",
                "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,60}$",
                "description": "A locale of the provider: C, C.UTF-8, de_DE.UTF-8; with icu de-DE, und",
                "default": "C.UTF-8",
            },
            "locale_provider": {
                "type": "string",
                "title": "Locale provider",
                "enum": list(_PROVIDERS.values()),
                "description": "icu from PostgreSQL 15 on, builtin (C, C.UTF-8, PG_UNICODE_FAST) from 17 on",
            },
        },
        "additionalProperties": False,
    }

    def begins_anew(self, part: str) -> str:
        return "cluster"

    def plan(self, facts: Facts, requested: Any) -> Plan:
        options: dict[str, str] = {}
        if "data_checksums" in requested:
            options["--data-checksums" if requested["data_checksums"] else "--no-data-checksums"] = ""
        if "wal_segment_size" in requested:
            options["--wal-segsize"] = str(requested["wal_segment_size"])
        if "encoding" in requested:
            options["--encoding"] = requested["encoding"]
        return Plan(initdb={**options, **_locale(requested)})

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        if phase != "before" or scene.sql is None:
            return []
        shown = scene.sql(_QUERY)
        actual = {
            "data_checksums": shown["data_checksums"] == "on",
            "wal_segment_size": shown["wal_segment_size"] // MB,
            "encoding": shown["encoding"],
            "locale": _actual_locale(shown["database"]),
            "locale_provider": _PROVIDERS.get(shown["database"].get("datlocprovider", "c")),
        }
        source = {"source": "pg_settings, pg_database"}
        return [Proof(name, value, actual[name], value == actual[name], source) for name, value in requested.items()]


def _locale(requested: Any) -> dict[str, str]:
    """The locale of libc still applies to functions of the C library, with each provider of collations."""
    provider, locale = requested.get("locale_provider", ""), requested.get("locale", "")
    if provider == "icu":
        return {"--locale-provider": "icu", "--icu-locale": locale or "und"}
    if provider == "builtin":
        return {"--locale-provider": "builtin", "--builtin-locale": locale or "C.UTF-8"}
    options = {"--locale": locale} if locale else {}
    return {"--locale-provider": "libc", **options} if provider else options


def _actual_locale(database: dict[str, Any]) -> Any:
    """Return the locale of the database's provider. PostgreSQL 15 and 16 have a separate column for ICU."""
    return database.get("datlocale") or database.get("daticulocale") or database["datcollate"]
