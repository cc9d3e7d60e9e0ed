"""PostgreSQL's own parameters, in a file of ours that the cluster includes."""

from __future__ import annotations

import re
from typing import Any, Mapping

from ..errors import Unplannable
from .base import Facts, Plan, Proof, Scene, Setting

# Parameters for the location of the cluster and access to it, which the agent sets itself.
OURS = {
    "port", "listen_addresses", "unix_socket_directories", "unix_socket_group", "unix_socket_permissions",
    "data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "include", "include_dir",
    "include_if_exists", "logging_collector", "log_directory", "log_filename", "event_source", "bonjour",
}  # fmt: skip
# Parameters whose value is a program or a library that the server would run.
CODE = {
    "archive_command", "archive_cleanup_command", "archive_library", "restore_command", "recovery_end_command",
    "ssl_passphrase_command", "ssl_library", "local_preload_libraries", "session_preload_libraries",
    "dynamic_library_path", "extension_control_path", "jit_provider", "krb_server_keyfile", "oauth_validator_libraries",
}  # fmt: skip
# Procedural languages, whose parameters name code and libraries.
LANGUAGES = ("plperl", "pltcl", "plpython", "plv8", "pljava", "plr", "pllua", "plrust")
ELSEWHERE = {"huge_pages": "the huge_pages setting"}
# Libraries that PostgreSQL itself ships and that are of use in a benchmark.
CONTRIB = {"pg_stat_statements", "pg_prewarm", "auto_explain", "pg_buffercache"}
QUOTABLE = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")  # no quote can be in such a name
_FACTORS: dict[str, dict[str, float]] = {
    "B": {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40},
    "us": {"us": 1, "ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9, "d": 8.64e10},
}
# Values that the server takes and then shows as another; as wal_compression knew only on and off before 15.
_SYNONYMS = {
    "wal_compression": dict.fromkeys(("on", "true", "yes", "1"), "pglz"),
    "wal_level": dict.fromkeys(("archive", "hot_standby"), "replica"),
}
_BOOL = {"on": "on", "true": "on", "yes": "on", "1": "on", "off": "off", "false": "off", "no": "off", "0": "off"}


class PostgreSQL(Setting):
    name = "postgresql"
    title = "PostgreSQL parameters"
    help = "Parameters of postgresql.conf in a separate file that the cluster includes, e.g. shared_buffers, work_mem"
    unit = "as in postgresql.conf"
    risk = "none on a private cluster; an existing one is reloaded, or restarted if a parameter requires it"
    schema = {
        "type": "object",
        "title": "PostgreSQL parameters",
        "description": "Name and value as in postgresql.conf; values can have units (1GB, 30s)",
        "propertyNames": {
            "type": "string",
            "pattern": f"^{QUOTABLE.pattern}$",
            "description": "a parameter name in lower case, such as shared_buffers",
        },
        "additionalProperties": {
            "type": ["string", "number", "boolean"],
            "maxLength": 1000,
            "pattern": r"^[^\x00-\x1f]*$",
            "description": "a value on one line",
        },
    }

    def begins_anew(self, part: str) -> str:
        """Name the parameters that need a restart, according to pg_settings."""
        return "server"

    def plan(self, facts: Facts, requested: Any) -> Plan:
        for name, value in requested.items():
            _refuse(name, value)
        return Plan(conf={name: spell(value) for name, value in requested.items()})

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        if phase not in ("before", "after") or scene.sql is None or not requested:
            return []
        conf = {name: spell(value) for name, value in requested.items()}
        proofs = scene.parameter_proofs(conf) if scene.parameter_proofs else None
        if proofs is not None:
            return proofs
        names = ", ".join(f"'{name}'" for name in requested)
        shown = scene.sql(_QUERY.format(names=names))
        return [_proof(name, value, shown, scene.conf_file) for name, value in conf.items()]


# The names were checked against the schema's pattern: no quote can be in them.
_QUERY = """
select json_build_object(
  'settings', (select json_object_agg(name, json_build_object('setting', setting, 'unit', unit, 'vartype', vartype,
      'source', source, 'sourcefile', sourcefile, 'sourceline', sourceline, 'pending_restart', pending_restart,
      'show', current_setting(name)))
    from pg_settings where name in ({names})),
  'file', (select json_agg(json_build_object('file', sourcefile, 'name', name, 'setting', setting, 'applied', applied,
      'error', error)) from pg_file_settings where name in ({names})))
"""


def _refuse(name: str, value: Any) -> None:
    field = f"postgresql.{name}"
    if name in ELSEWHERE:
        raise Unplannable(field, value, f"nothing here; use {ELSEWHERE[name]}")
    if name in OURS:
        raise Unplannable(field, value, "nothing; a profile cannot set where a cluster is located or listens")
    if name in CODE or ("." in name and name.startswith(LANGUAGES)):
        raise Unplannable(field, value, "nothing; this parameter would run code")
    if name == "shared_preload_libraries":
        libraries = {part.strip().strip('"') for part in str(value).split(",") if part.strip()}
        if libraries - CONTRIB:
            raise Unplannable(field, value, f"libraries that PostgreSQL ships: {', '.join(sorted(CONTRIB))}")


def spell(value: Any) -> str:
    """A JSON value as postgresql.conf writes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def normalise(text: str, unit: str, vartype: str) -> Any:
    """A value as pg_settings.setting counts it, for comparison: bytes or microseconds when it has a unit."""
    if vartype == "bool":
        return _BOOL.get(text.lower(), text)
    if vartype not in ("integer", "real"):
        return text.lower() if vartype == "enum" else text
    digits = text.strip().rstrip("kMGTBusminhd ")
    suffix = text.strip()[len(digits) :].strip() or unit
    number = float(int(digits, 0) if digits.lower().startswith(("0x", "-0x")) else float(digits))
    return number * _factor(suffix)


def _factor(unit: str) -> float:
    digits = unit.rstrip("kMGTBusminhd")
    for table in _FACTORS.values():
        if unit[len(digits) :] in table:
            return float(digits or 1) * table[unit[len(digits) :]]
    return 1.0


def _proof(name: str, expected: str, shown: dict[str, Any], conf_file: str) -> Proof:
    """Prove that the line of the run's file was applied, nothing overrides it, and no restart is pending."""
    row = (shown["settings"] or {}).get(name)
    lines = [line for line in shown["file"] or [] if line["name"] == name and line["file"] == conf_file]
    if row is None:
        return Proof(
            name, expected, "unknown parameter", False, {"source": "pg_settings, pg_file_settings", "file": lines}
        )
    applied = bool(lines) and lines[-1]["applied"] and not lines[-1]["error"]
    ours = row["sourcefile"] == conf_file and not row["pending_restart"]
    ok = bool(applied and ours and same(name, expected, row))
    actual = row["show"] if ok else _overridden(row, conf_file)
    evidence = {"source": "pg_settings, pg_file_settings", "pg_settings": row, "file": lines}
    return Proof(name, expected, actual, ok, evidence)


def _overridden(row: dict[str, Any], conf_file: str) -> str:
    """The value in effect, and the file and line that override ours."""
    if row["pending_restart"]:
        return f"{row['show']}, waiting for a restart"
    if row["sourcefile"] in (None, conf_file):
        return str(row["show"]) if row["source"] == "configuration file" else f"{row['show']} ({row['source']})"
    return f"{row['show']} of {row['sourcefile']} line {row['sourceline']}"


def same(name: str, expected: str, row: Mapping[str, Any]) -> bool:
    """Whether the value in effect is the `expected` one; `row` is of pg_settings: setting, unit, vartype."""
    unit, vartype = row["unit"] or "", row["vartype"]
    if vartype == "enum":
        expected = _SYNONYMS.get(name, {}).get(expected.lower(), expected)
    try:
        target, actual = normalise(expected, unit, vartype), normalise(row["setting"], unit, vartype)
    except ValueError:
        return False
    if vartype not in ("integer", "real"):
        return bool(target == actual)
    if vartype == "integer":
        return bool(abs(target - actual) < _factor(unit))  # the server rounds to its own units
    return bool(abs(target - actual) <= abs(target) * 1e-6)
