"""PostgreSQL's parameters as a typed catalogue, from pg_settings of PostgreSQL 18.

`manage.py read_gucs` generates gucs.json. A server of another version is queried when the run starts; the catalogue
only finds errors while a profile is written."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from common.errors import PlanError
from common.wording import on_off

FILE = Path(__file__).with_name("gucs.json")
MEMORY = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
TIME = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
BOOLEANS = ("on", "off", "true", "false", "yes", "no", "1", "0")
# Parameters that only exist before version 18; the server validates their values.
FORMER = {
    "checkpoint_segments", "db_user_namespace", "force_parallel_mode", "min_parallel_relation_size",
    "old_snapshot_threshold", "operator_precedence_warning", "promote_trigger_file", "replacement_sort_tuples",
    "sql_inheritance", "stats_temp_directory", "trace_recovery_messages", "vacuum_cleanup_index_scale_factor",
    "vacuum_defer_cleanup_age", "wal_keep_segments",
}  # fmt: skip
# Choices of servers that were built with a library, which ours may lack. The host's server is asked before a run.
OF_SOME_BUILDS = {
    "default_toast_compression": ["lz4"],
    "io_method": ["io_uring"],
    "wal_compression": ["lz4", "zstd"],
}
QUANTITY = re.compile(r"^(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)$")


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """name -> {"vartype", "unit", "min_val", "max_val", "enumvals", "context", "short_desc", "boot_val"}."""
    known: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    for name, choices in OF_SOME_BUILDS.items():
        known[name]["enumvals"] += [choice for choice in choices if choice not in known[name]["enumvals"]]
    return known


def check(field: str, name: str, value: Any) -> None:
    """Raise PlanError unless `value` is valid for the parameter `name`."""
    known = catalogue().get(name)
    if known is None:
        if "." in name or name in FORMER:
            return  # of an extension or an older version; the server validates it
        raise PlanError(field, "is not a PostgreSQL parameter", hint=_near(name))
    if known["context"] == "internal":
        raise PlanError(field, "cannot be set: it is fixed when the cluster or the server is built")
    text = on_off(value).strip()
    if known["vartype"] == "bool" and text.lower() not in BOOLEANS:
        raise PlanError(field, f"{text!r} is not a boolean", hint="on or off")
    if known["vartype"] == "enum" and text.lower() not in map(str.lower, known["enumvals"]):
        raise PlanError(field, f"{text!r} is not accepted", hint="one of " + ", ".join(known["enumvals"]))
    if known["vartype"] in ("integer", "real"):
        _check_number(field, text, known)


def needs_restart(name: str) -> bool:
    """Return whether another value needs a restart of PostgreSQL. False for parameters of extensions, which are
    unknown here."""
    return catalogue().get(name, {}).get("context") == "postmaster"


def _check_number(field: str, text: str, known: dict[str, Any]) -> None:
    unit = known["unit"] or ""
    low, high = known["min_val"], known["max_val"]
    hint = f"{known['vartype']} from {low} to {high}" + (f", in {unit} or with a unit" if unit else "")
    match = QUANTITY.match(text)
    if not match:
        raise PlanError(field, f"{text!r} is not a number", hint=hint)
    number = Decimal(match[1])
    if match[2]:
        factor = _factor(match[2], unit)
        if factor is None:
            raise PlanError(field, f"{text!r}: unit {match[2]!r} is not accepted", hint=hint)
        number *= factor
    if not Decimal(low) <= number <= Decimal(high):
        raise PlanError(field, f"{text!r} is out of range", hint=hint)


def _factor(unit: str, base: str) -> Decimal | None:
    """Return how many of the parameter's own unit (such as 8kB) one `unit` is."""
    scale = scale_of(base)
    return Decimal(scale[1][unit]) / scale[0] if scale and unit in scale[1] else None


def scale_of(unit: str) -> tuple[int, dict[str, int]] | None:
    """Return the size of a parameter's unit, such as 8192 for 8kB, and the sizes of the accepted units. None for a
    number without a unit."""
    match = re.match(r"^(\d*)([A-Za-z]+)$", unit)
    table = next((table for table in (MEMORY, TIME) if match and match[2] in table), None)
    return (int(match[1] or 1) * table[match[2]], table) if match and table else None


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, catalogue(), n=3)
    return "did you mean " + ", ".join(near) + "?" if near else "see pg_settings"
