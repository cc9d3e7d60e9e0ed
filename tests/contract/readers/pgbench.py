"""pgbench: stdout, stderr, initialisation, logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from apps.results.formats.pgbench import EXCLUDING, RECONNECTING, WITHOUT_INITIAL, Script, parse_summary
from apps.results.formats.pgbench_stderr import parse_init, parse_stderr
from tests.contract.readers.values import told

KINDS_OF_DEFINITION = {WITHOUT_INITIAL: "without_initial_connection", RECONNECTING: "including_reconnections"}


def summary_values(raw: bytes) -> dict[str, Any]:
    found = parse_summary(raw)
    values = {name: value for name, value in asdict(found).items() if name not in ("tps", "tps_definition", "scripts")}
    if found.tps_definition == EXCLUDING:
        values["tps_excluding"] = found.tps
    else:
        values |= {"tps": found.tps, "tps_kind": KINDS_OF_DEFINITION[found.tps_definition]}
    named = [script_values(one) for one in found.scripts if one.name]
    lone = script_values(found.scripts[0]) if found.scripts and not named else {}
    return values | {
        "complete": True,
        "scripts": named,
        "statements": lone.pop("statements", []),
        "script_block": lone,
        "script_statistics": bool(found.scripts) and not named,
    }


def script_values(script: Script) -> dict[str, Any]:
    values = told(asdict(script))
    if "statements" in values:
        values["statements"] = [told(statement) for statement in values["statements"]]
    return values


def progress_values(raw: bytes) -> dict[str, Any]:
    found = parse_stderr(raw)
    return {"progress": [told(asdict(one)) for one in found.progress], "other_lines": list(found.other_lines)}


def error_values(raw: bytes) -> dict[str, Any]:
    found = parse_stderr(raw)
    return {
        "aborted_clients": list(found.aborted_clients),
        "lines": list(found.other_lines),
        "run_aborted": found.run_aborted,
        "sql_errors": list(found.sql_errors),
    }


def init_values(raw: bytes) -> dict[str, Any]:
    found = asdict(parse_init(raw))
    steps = dict(found.pop("steps_s"))
    return found | {"steps": steps or None}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "pgbench_stdout": summary_values,
    "pgbench_progress": progress_values,
    "pgbench_error": error_values,
    "pgbench_init": init_values,
}
